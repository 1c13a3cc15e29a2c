#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "comm/transfer/card_share.hpp"

namespace cohort {

/// Keeps what a rank sends, and what it receives, below a rate: in each direction a message may go
/// when those before it have had their time. The rate is a limit of the rank, for studies of slow
/// networks, and with other hosts its share of the host's network card. To be used on the
/// communication thread, but for set_rate().
class Pacer {
public:
    using Instant = std::chrono::steady_clock::time_point;

    /// @param bytes_per_second  0: no limit
    void set_rate(double bytes_per_second) noexcept { rate_.store(bytes_per_second); }
    /// The rank has a limit of its own.
    [[nodiscard]] bool limits() const noexcept { return rate_.load() > 0; }
    void share(const CardShare& card) { card_ = card; }

    /// True: `bytes` may be sent now, and count as sent. @param over_card  to another host
    [[nodiscard]] bool may_send(std::uint64_t bytes, bool over_card = false) {
        const Instant now = std::chrono::steady_clock::now();
        return go(bytes, now, CardWay::kOut, over_card);
    }
    [[nodiscard]] bool may_receive(std::uint64_t bytes, bool over_card = false) {
        const Instant now = std::chrono::steady_clock::now();
        return go(bytes, now, CardWay::kIn, over_card);
    }
    /// The same for as much in both directions, within the host.
    [[nodiscard]] bool may_exchange(std::uint64_t bytes) {
        const Instant now = std::chrono::steady_clock::now();
        if (!due(CardWay::kIn, rate_.load(), now) || !go(bytes, now, CardWay::kOut, false)) {
            return false;
        }
        return go(bytes, now, CardWay::kIn, false);
    }

    /// From now on due() speaks of what is refused.
    void forget_refusals() noexcept { next_.reset(); }
    /// When the first that was refused may go.
    [[nodiscard]] std::optional<Instant> next() const noexcept { return next_; }

private:
    /// A thread that wakes up late may catch up with this much.
    static constexpr std::chrono::milliseconds kSlack{10};

    /// Bytes of messages that have gone before their time at the rate was over. Bytes, not
    /// seconds, because the rate may change meanwhile.
    struct Debt {
        double bytes = 0;  ///< below 0: may catch up
        Instant at;
    };

    [[nodiscard]] bool due(CardWay way, double rate, Instant now) {
        if (rate <= 0) {
            return true;
        }
        Debt& debt = debts_[static_cast<std::size_t>(way)];
        const std::chrono::duration<double> passed = now - debt.at;
        const std::chrono::duration<double> slack = kSlack;
        debt = {.bytes = std::max(debt.bytes - rate * passed.count(), -rate * slack.count()),
                .at = now};
        if (debt.bytes <= 0) {
            return true;
        }
        const std::chrono::duration<double> takes(debt.bytes / rate);
        const Instant then = now + std::chrono::duration_cast<Instant::duration>(takes);
        next_ = next_ ? std::min(*next_, then) : then;
        return false;
    }
    [[nodiscard]] bool go(std::uint64_t bytes, Instant now, CardWay way, bool over_card) {
        const double own = rate_.load();
        const double card = over_card ? card_.rate(way, now) : 0;
        const double rate = own > 0 && card > 0 ? std::min(own, card) : std::max(own, card);
        const bool goes = due(way, rate, now);
        if (over_card) {
            card_.works(way, goes ? static_cast<double>(bytes) : 0, now);
        }
        if (goes && rate > 0) {
            debts_[static_cast<std::size_t>(way)].bytes += static_cast<double>(bytes);
        }
        return goes;
    }

    std::atomic<double> rate_{0};
    CardShare card_;
    std::array<Debt, 2> debts_;  ///< by way
    std::optional<Instant> next_;
};

}  // namespace cohort
