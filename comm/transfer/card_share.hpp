#pragma once

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
/// too. Ranks that use the card at the same time share it by their weights: where the weights
/// differ, each keeps to its share of the card's rate; where they are all the same, nobody does
/// anything, since the card then shares itself. Who has nothing to send leaves its share to the
/// others. Thread safe; views of one card may be of different processes.
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
            const CardUser& user = users_[i];
            if (i == own_ || user.busy_until_ns[index(way)].load() > nanoseconds(now)) {
                const double weight = user.weight.load();
                sum += weight;
                same = same && weight == own;
            }
        }
        return same ? 0 : bytes_per_second_ * own / sum;
    }
    /// This rank has begun to transfer so many bytes. It counts as a user of the card for twice as
    /// long as they take at `rate`: they may take longer, and the next ones may be late.
    /// @param rate  as rate() said just before
    void begins(CardWay way, double bytes, double rate, Instant now) const {
        if (users_.empty()) {
            return;
        }
        const double seconds = 2 * bytes / (rate > 0 ? rate : bytes_per_second_);
        const auto until = nanoseconds(now) + static_cast<std::int64_t>(1e9 * seconds);
        users_[own_].busy_until_ns[index(way)].store(until);
    }

private:
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
