#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cohort {

/// One way through a network card.
enum class CardWay : std::uint8_t { kOut, kIn };

/// A rank that sends and receives through its host's network card, in memory that all ranks of the
/// host map.
struct CardUser {
    std::atomic<double> weight{1};
    std::array<std::atomic<std::int64_t>, 2> busy_until_ns{};  ///< by way, of the steady clock
};

/// A rank's view of the network card that it shares with other ranks of its host, of other jobs
/// too. Where weights of ranks that use the card differ, each keeps to the card's rate times its
/// weight over the sum of the weights of those that are at work at the moment: who has nothing to
/// send leaves its share to the others, and what waits does so here, not in the system's queues,
/// where weights mean nothing. Where all weights are the same nobody does anything: the card then
/// shares itself. Thread safe; views of one card may be of different processes.
class CardShare {
public:
    using Instant = std::chrono::steady_clock::time_point;

    /// No card: rate() is 0.
    CardShare() = default;
    /// @param users  of the card, outlive this  @param own  index of this rank
    /// @param bytes_per_second  of the card in each direction, > 0
    CardShare(std::span<CardUser> users, std::size_t own, double bytes_per_second)
        : users_(users), own_(own), bytes_per_second_(bytes_per_second) {}

    /// Of this rank.
    void set_weight(double weight) const {
        if (!users_.empty()) {
            users_[own_].weight.store(weight);
        }
    }
    /// What this rank may use at the moment, bytes/s; 0: there is no limit.
    [[nodiscard]] double rate(CardWay way, Instant now) const {
        double sum = 0;
        bool same = true;
        const double own = users_.empty() ? 1 : users_[own_].weight.load();
        for (std::size_t i = 0; i < users_.size(); ++i) {
            const std::int64_t idle_ns = nanoseconds(now) - users_[i].busy_until_ns[index(way)];
            const double weight = users_[i].weight.load();
            same = same && (weight == own || idle_ns > kForgottenNs);
            sum += i == own_ || idle_ns < kLateNs ? weight : 0;
        }
        return same ? 0 : bytes_per_second_ * own / sum;
    }
    /// This rank has something to transfer, and begins with so many bytes; 0: it waits. It is at
    /// work for as long as they take the card.
    void works(CardWay way, double bytes, Instant now) const {
        if (users_.empty()) {
            return;
        }
        std::atomic<std::int64_t>& until = users_[own_].busy_until_ns[index(way)];
        const std::int64_t at = nanoseconds(now);
        until.store(std::clamp(until.load(), at, at + kAheadNs) +
                    static_cast<std::int64_t>(1e9 * bytes / bytes_per_second_));
    }

private:
    /// What has begun counts at most so far ahead: the card may be faster than was said.
    static constexpr std::int64_t kAheadNs = 1'000'000'000;
    /// Who has more to transfer says so within this time: threads sleep in between.
    static constexpr std::int64_t kLateNs = 10'000'000;
    /// A rank that has used the card before this time has ended, or will not miss its share.
    static constexpr std::int64_t kForgottenNs = 10'000'000'000;

    static std::size_t index(CardWay way) { return static_cast<std::size_t>(way); }
    static std::int64_t nanoseconds(Instant time) {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch())
            .count();
    }

    std::span<CardUser> users_;
    std::size_t own_ = 0;
    double bytes_per_second_ = 0;
};

}  // namespace cohort
