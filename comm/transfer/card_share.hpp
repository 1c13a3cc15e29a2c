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
/// too. Where the weights of the ranks that use the card differ, each rank keeps to the card's rate
/// times its weight over the sum of the weights of the ranks that transfer at the moment: a rank
/// with nothing to send leaves its share to the others. Chunks wait in the rank's own queue, not in
/// the system's, where weights mean nothing. Where all weights are the same no rank is limited.
/// Thread safe; views of one card may belong to different processes.
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
    /// A rank counts as at work for at most this long after its newest chunk began: the card may
    /// be faster than its given rate.
    static constexpr std::int64_t kAheadNs = 1'000'000'000;
    /// A rank with more to transfer calls works() within this time: its thread sleeps in between.
    static constexpr std::int64_t kLateNs = 10'000'000;
    /// A rank that has not used the card for this long does not count when weights are compared.
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
