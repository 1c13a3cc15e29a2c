#pragma once

#include <chrono>

namespace cohort {

/// A longer gap between two looks at a clock: this process, or its thread, was stopped or starved.
inline constexpr std::chrono::milliseconds kOwnPause{500};

/// How long this process has been running: a pause in which it was stopped does not count.
class RunningTime {
public:
    /// Asked many times a second.
    [[nodiscard]] std::chrono::duration<double> look() {
        const auto now = std::chrono::steady_clock::now();
        if (now - last_ < kOwnPause) {
            sum_ += now - last_;
        }
        last_ = now;
        return sum_;
    }

private:
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
    std::chrono::duration<double> sum_{0};
};

}  // namespace cohort
