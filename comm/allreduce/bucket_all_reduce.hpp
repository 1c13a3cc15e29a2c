#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cohort/core/clock.hpp"
#include "comm/allreduce/all_reduce.hpp"
#include "comm/allreduce/buckets.hpp"

namespace cohort {

/// What all back ends share: the order of calls, ranges that become whole buckets, and the clock.
class BucketAllReduce : public AllReduce {
public:
    [[nodiscard]] std::span<float> begin(std::uint64_t round) final;
    void ready(std::int64_t begin, std::int64_t end) final;
    void finish(const SummaryBytes& summary) final;
    [[nodiscard]] std::optional<std::vector<SummaryBytes>> wait() final;
    [[nodiscard]] AllReduceTimes times() const noexcept override { return times_; }

protected:
    explicit BucketAllReduce(const Buckets& buckets) : buckets_(buckets), ranges_(buckets.floats) {}
    [[nodiscard]] const Buckets& buckets() const noexcept { return buckets_; }
    [[nodiscard]] std::uint64_t round() const noexcept { return round_; }

private:
    enum class Phase : std::uint8_t { kIdle, kFilling, kSubmitted, kBroken };

    /// Ordinals of rounds count 1, 2, ... @return this member's buffer for the round
    [[nodiscard]] virtual float* start(std::uint64_t ordinal) = 0;
    /// The first `buckets` of this member are final; more than in the call before.
    virtual void arrive(std::int64_t buckets) = 0;
    /// This member's summary; all buckets are final.
    virtual void submit(const SummaryBytes& summary) = 0;
    /// Blocks until the round is over. @return see wait()
    [[nodiscard]] virtual std::optional<std::vector<SummaryBytes>> complete() = 0;

    void expect(Phase wanted, std::string_view call) const;
    void start_clock();

    SteadyClock clock_;
    Buckets buckets_;
    ReadyRanges ranges_;
    Phase phase_ = Phase::kIdle;
    std::uint64_t ordinal_ = 0;
    std::uint64_t round_ = 0;
    std::int64_t arrived_ = 0;                   ///< buckets
    std::optional<Clock::Seconds> first_ready_;  ///< when the first bucket was ready
    double submitting_s_ = 0;
    AllReduceTimes times_;
};

/// Looks a little longer before a thread goes to sleep: what it waits for often comes soon. It
/// yields the core at every look, so that another rank with work can run.
class ShortPatience {
public:
    /// False when it is time to sleep.
    [[nodiscard]] bool look_again() {
        const auto now = std::chrono::steady_clock::now();
        if (!looking_) {
            looking_ = true;
            until_ = now + kLooking;
        } else if (now > until_) {
            return false;
        }
        sched_yield();
        return true;
    }
    /// Something happened.
    void renew() noexcept { looking_ = false; }

private:
    static constexpr std::chrono::microseconds kLooking{40};
    bool looking_ = false;
    std::chrono::steady_clock::time_point until_;
};

}  // namespace cohort
