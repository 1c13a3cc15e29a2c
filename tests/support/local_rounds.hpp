#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "worker_rounds.hpp"

namespace cohort::test {

/// Rings over threads of one process: sums in member order in single precision, each member sees
/// the same. Checks that ready() covers the buffer from its end to its start.
class LocalRounds {
public:
    /// Called for every tail before it is shared; to play with.
    std::function<void(std::uint64_t round, int rank, RingTail& tail)> on_tail;
    /// Pieces announced by ready(), over all members and rounds.
    [[nodiscard]] int pieces() const {
        const std::lock_guard lock(mutex_);
        return pieces_;
    }
    /// Rings that were made, counting each member.
    [[nodiscard]] int made() const {
        const std::lock_guard lock(mutex_);
        return made_;
    }

    /// The factory of the worker on `rank`.
    [[nodiscard]] RoundExchangeFactory factory(int rank) {
        return [this, rank](const std::vector<int>& members, std::int64_t floats) {
            const std::lock_guard lock(mutex_);
            ++made_;
            return std::make_unique<Exchange>(*this, members, rank, floats);
        };
    }

private:
    struct Round {
        std::map<int, std::vector<float>> values;  ///< by rank
        std::map<int, RingTail> tails;
    };

    class Exchange final : public RoundExchange {
    public:
        Exchange(LocalRounds& all, std::vector<int> members, int rank, std::int64_t floats)
            : all_(all),
              members_(std::move(members)),
              rank_(rank),
              buffer_(static_cast<std::size_t>(floats)) {}

        std::span<float> begin(std::uint64_t round) override {
            round_ = round;
            low_ = static_cast<std::int64_t>(buffer_.size());
            return buffer_;
        }
        void ready(std::int64_t begin, std::int64_t end) override {
            if (end != low_ || begin >= end) {
                throw std::logic_error("pieces are announced from the end on, each once");
            }
            low_ = begin;
            const std::lock_guard lock(all_.mutex_);
            ++all_.pieces_;
        }
        void finish(const RingTail& tail) override {
            RingTail mine = tail;
            if (all_.on_tail) {
                all_.on_tail(round_, rank_, mine);
            }
            const std::lock_guard lock(all_.mutex_);
            Round& round = all_.rounds_[round_];
            round.values[rank_] = buffer_;
            round.tails[rank_] = mine;
            all_.changed_.notify_all();
        }
        std::optional<std::vector<RingTail>> wait() override {
            std::unique_lock lock(all_.mutex_);
            Round& round = all_.rounds_[round_];
            all_.changed_.wait(lock, [&] { return round.tails.size() == members_.size(); });
            buffer_ = round.values.at(members_.front());
            for (std::size_t i = 1; i < members_.size(); ++i) {
                const std::vector<float>& next = round.values.at(members_[i]);
                for (std::size_t at = 0; at < buffer_.size(); ++at) {
                    buffer_[at] += next[at];
                }
            }
            std::vector<RingTail> tails;
            for (const int member : members_) {
                tails.push_back(round.tails.at(member));
            }
            return tails;
        }
        [[nodiscard]] RingTimes times() const noexcept override { return {0.5, 0.25}; }

    private:
        LocalRounds& all_;
        std::vector<int> members_;
        int rank_;
        std::vector<float> buffer_;
        std::uint64_t round_ = 0;
        std::int64_t low_ = 0;
    };

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::uint64_t, Round> rounds_;
    int pieces_ = 0;
    int made_ = 0;
};

}  // namespace cohort::test
