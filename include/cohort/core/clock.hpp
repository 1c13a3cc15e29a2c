#pragma once

#include <chrono>

namespace cohort {

/// Time in seconds since an arbitrary start. Code that decides by time takes a Clock, so that
/// tests run under a virtual one.
class Clock {
public:
    using Seconds = std::chrono::duration<double>;
    Clock() = default;
    Clock(const Clock&) = delete;
    Clock& operator=(const Clock&) = delete;
    virtual ~Clock() = default;
    [[nodiscard]] virtual Seconds now() const = 0;
};

/// The machine's monotonic clock.
class SteadyClock final : public Clock {
public:
    [[nodiscard]] Seconds now() const override {
        return std::chrono::duration_cast<Seconds>(
            std::chrono::steady_clock::now().time_since_epoch());
    }
};

/// CPU time of the calling thread.
class ThreadCpuClock final : public Clock {
public:
    [[nodiscard]] Seconds now() const override;
};

/// A clock that stands still until it is set forward.
class VirtualClock final : public Clock {
public:
    [[nodiscard]] Seconds now() const override { return now_; }
    void advance(Seconds by) { now_ += by; }

private:
    Seconds now_{0};
};

}  // namespace cohort
