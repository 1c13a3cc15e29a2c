#pragma once

#include <sched.h>

#include <chrono>

namespace cohort {

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
