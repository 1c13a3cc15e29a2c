#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace cohort {

/// Keeps what a rank sends, and what it receives, below a rate, for studies of slow networks: in
/// each direction a message may go when those before it have had their time. To be used on the
/// communication thread, but for set_rate().
class Pacer {
public:
    using Instant = std::chrono::steady_clock::time_point;

    /// @param bytes_per_second  0: no limit
    void set_rate(double bytes_per_second) noexcept { rate_.store(bytes_per_second); }
    [[nodiscard]] bool limits() const noexcept { return rate_.load() > 0; }

    /// True: `bytes` may be sent now, and count as sent.
    [[nodiscard]] bool may_send(std::uint64_t bytes) {
        return go(bytes, sent_until_, std::chrono::steady_clock::now());
    }
    [[nodiscard]] bool may_receive(std::uint64_t bytes) {
        return go(bytes, received_until_, std::chrono::steady_clock::now());
    }
    /// The same for as much in both directions.
    [[nodiscard]] bool may_exchange(std::uint64_t bytes) {
        const Instant now = std::chrono::steady_clock::now();
        if (!due(received_until_, now) || !go(bytes, sent_until_, now)) {
            return false;
        }
        return go(bytes, received_until_, now);
    }

    /// From now on due() speaks of what is refused.
    void forget_refusals() noexcept { next_.reset(); }
    /// When the first that was refused may go.
    [[nodiscard]] std::optional<Instant> next() const noexcept { return next_; }

private:
    /// A thread that wakes up late may catch up with this much.
    static constexpr std::chrono::milliseconds kSlack{10};

    [[nodiscard]] bool due(Instant until, Instant now) {
        if (until <= now || !limits()) {
            return true;
        }
        next_ = next_ ? std::min(*next_, until) : until;
        return false;
    }
    [[nodiscard]] bool go(std::uint64_t bytes, Instant& until, Instant now) {
        if (!due(until, now)) {
            return false;
        }
        if (const double rate = rate_.load(); rate > 0) {
            const std::chrono::duration<double> takes(static_cast<double>(bytes) / rate);
            until = std::max(until, now - kSlack) +
                    std::chrono::duration_cast<Instant::duration>(takes);
        }
        return true;
    }

    std::atomic<double> rate_{0};
    Instant sent_until_;      ///< what was sent has its time until then
    Instant received_until_;  ///< the same
    std::optional<Instant> next_;
};

}  // namespace cohort
