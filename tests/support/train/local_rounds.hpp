#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "comm/allreduce/all_reduce.hpp"
#include "train/protocol/protocol_ring.hpp"

namespace cohort::test {

/// Rings over threads of one process: sums in member order in single precision, each member sees
/// the same. Checks that ready() covers the buffer from its end to its start, and that members make
/// a ring together. A rank that is lost breaks the rings it is part of, as AllReduce says.
class LocalRounds {
public:
    /// Where a member is in a round.
    enum class Stage : std::uint8_t {
        kMake,      ///< about to make an exchange
        kBegin,     ///< before its contribution
        kReady,     ///< a piece is announced
        kFinish,    ///< before its summary
        kShared,    ///< all of it is with the others
        kCompleted  ///< the sums are here
    };
    /// Called on the member's thread; may throw, which ends that worker.
    std::function<void(Stage stage, std::uint64_t round, int rank)> at;
    /// Called for every summary before it is shared; may change it.
    std::function<void(std::uint64_t round, int rank, RoundSummary& summary)> on_summary;
    /// Whether a round that is complete is so at this rank too; false: it breaks here.
    std::function<bool(std::uint64_t round, int rank)> completes;

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
    /// The rank is excluded: its rings break. And: it belongs to the job again.
    void lose(int rank) {
        const std::lock_guard lock(mutex_);
        lost_.insert(rank);
        ++times_lost_[rank];
        for (auto& [who, arrivals] : arrivals_) {
            const auto& [members, watched] = who;
            if (std::find(watched.begin(), watched.end(), rank) != watched.end()) {
                begin_anew(members, arrivals);
            }
        }
        changed_.notify_all();
    }
    void come_back(int rank) {
        const std::lock_guard lock(mutex_);
        lost_.erase(rank);
    }

    /// The factory of the worker on `rank`.
    [[nodiscard]] AllReduceFactory factory(int rank) {
        return [this, rank](const std::vector<int>& members, std::int64_t floats,
                            const AllReduceScope& scope) {
            reach(Stage::kMake, 0, rank);
            std::vector<int> watched = members;
            watched.insert(watched.end(), scope.watched.begin(), scope.watched.end());
            return make({members, watched}, rank, floats);
        };
    }

private:
    struct Round {
        std::map<int, std::vector<float>> values;  ///< by rank
        std::map<int, SummaryBytes> summaries;
        std::size_t taken = 0;  ///< members that have the sums
    };
    using Key = std::pair<std::uint64_t, std::uint64_t>;  ///< ring, round

    using Who = std::pair<std::vector<int>, std::vector<int>>;  ///< members; whose loss breaks it

    class Exchange;

    void reach(Stage stage, std::uint64_t round, int rank) const {
        if (at) {
            at(stage, round, rank);
        }
    }
    /// Who had come when the ring broke does not count for the next one.
    static void begin_anew(const std::vector<int>& members,
                           std::map<int, std::uint64_t>& arrivals) {
        std::uint64_t most = 0;
        for (const int member : members) {
            most = std::max(most, arrivals[member]);
        }
        for (const int member : members) {
            arrivals[member] = most;
        }
    }
    /// Losses so far of any of them.
    [[nodiscard]] std::uint64_t losses(const std::vector<int>& members) {
        std::uint64_t all = 0;
        for (const int member : members) {
            all += times_lost_[member];
        }
        return all;
    }
    [[nodiscard]] bool broken(const std::vector<int>& members) const {
        return std::any_of(members.begin(), members.end(),
                           [this](int member) { return lost_.count(member) > 0; });
    }
    [[nodiscard]] std::unique_ptr<AllReduce> make(const Who& who, int rank, std::int64_t floats);

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::map<Key, Round> rounds_;
    std::map<Who, std::map<int, std::uint64_t>> arrivals_;  ///< times made, by rank
    std::set<int> lost_;
    std::map<int, std::uint64_t> times_lost_;
    std::map<std::pair<Who, std::uint64_t>, std::uint64_t> names_;
    int pieces_ = 0;
    int made_ = 0;
};

class LocalRounds::Exchange final : public AllReduce {
public:
    Exchange(LocalRounds& all, const Who& who, int rank, std::int64_t floats, std::uint64_t name,
             std::uint64_t losses)
        : all_(all),
          members_(who.first),
          watched_(who.second),
          rank_(rank),
          buffer_(static_cast<std::size_t>(floats)),
          name_(name),
          losses_(losses) {}

    std::span<float> begin(std::uint64_t round) override {
        if (round <= round_) {
            throw std::logic_error("rounds of an exchange have ascending numbers");
        }
        round_ = round;
        low_ = static_cast<std::int64_t>(buffer_.size());
        all_.reach(Stage::kBegin, round_, rank_);
        return buffer_;
    }
    void ready(std::int64_t begin, std::int64_t end) override {
        if (end != low_ || begin >= end) {
            throw std::logic_error("pieces are announced from the end on, each once");
        }
        low_ = begin;
        all_.reach(Stage::kReady, round_, rank_);
        const std::lock_guard lock(all_.mutex_);
        ++all_.pieces_;
    }
    void finish(const SummaryBytes& summary) override {
        all_.reach(Stage::kFinish, round_, rank_);
        auto mine = unpack_summary<RoundSummary>(summary);
        if (all_.on_summary) {
            all_.on_summary(round_, rank_, mine);
        }
        {
            const std::lock_guard lock(all_.mutex_);
            Round& round = all_.rounds_[{name_, round_}];
            round.values[rank_] = buffer_;
            round.summaries[rank_] = pack_summary(mine);
            all_.changed_.notify_all();
        }
        all_.reach(Stage::kShared, round_, rank_);
    }
    std::optional<std::vector<SummaryBytes>> wait() override {
        std::vector<SummaryBytes> summaries;
        {
            std::unique_lock lock(all_.mutex_);
            Round& round = all_.rounds_[{name_, round_}];
            const auto here = [&] { return round.summaries.size() == members_.size(); };
            const auto broken = [&] { return all_.losses(watched_) != losses_; };
            all_.changed_.wait(lock, [&] { return here() || broken(); });
            if (!here() || (all_.completes && !all_.completes(round_, rank_))) {
                return std::nullopt;
            }
            sum(round, summaries);
            if (++round.taken == members_.size()) {
                all_.rounds_.erase({name_, round_});
            }
        }
        all_.reach(Stage::kCompleted, round_, rank_);
        return summaries;
    }
    [[nodiscard]] AllReduceTimes times() const noexcept override { return {0.5, 0.25}; }

private:
    void sum(const Round& round, std::vector<SummaryBytes>& summaries) {
        buffer_ = round.values.at(members_.front());
        for (std::size_t i = 1; i < members_.size(); ++i) {
            const std::vector<float>& next = round.values.at(members_[i]);
            for (std::size_t at = 0; at < buffer_.size(); ++at) {
                buffer_[at] += next[at];
            }
        }
        for (const int member : members_) {
            summaries.push_back(round.summaries.at(member));
        }
    }

    LocalRounds& all_;
    std::vector<int> members_;
    std::vector<int> watched_;  ///< members, and others whose loss breaks it
    int rank_;
    std::vector<float> buffer_;
    std::uint64_t name_;    ///< the same on all members
    std::uint64_t losses_;  ///< when it was made
    std::uint64_t round_ = 0;
    std::int64_t low_ = 0;
};

/// Returns when all members have come.
inline std::unique_ptr<AllReduce> LocalRounds::make(const Who& who, int rank, std::int64_t floats) {
    const std::vector<int>& watched = who.second;
    std::unique_lock lock(mutex_);
    if (broken(watched)) {
        throw RingBroken("a member was lost");
    }
    ++made_;
    const std::uint64_t before = losses(watched);
    auto& arrivals = arrivals_[who];
    const std::uint64_t time = ++arrivals[rank];
    changed_.notify_all();
    const auto all_here = [&arrivals, &all = who.first, time] {
        return std::all_of(all.begin(), all.end(),
                           [&](int member) { return arrivals[member] >= time; });
    };
    const auto lost_one = [this, &all = who.second, before] { return losses(all) != before; };
    changed_.wait(lock, [&] { return lost_one() || all_here(); });
    if (lost_one()) {
        throw RingBroken("a member was lost");
    }
    const auto [name, fresh] = names_.emplace(std::pair{who, time}, names_.size() + 1);
    return std::make_unique<Exchange>(*this, who, rank, floats, name->second, before);
}

}  // namespace cohort::test
