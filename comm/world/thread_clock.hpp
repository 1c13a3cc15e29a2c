#pragma once

#include <pthread.h>

#include <ctime>
#include <mutex>

namespace cohort {

/// Processor time of one thread, which other threads can read while it runs and after its end.
class ThreadClock {
public:
    /// On that thread.
    void start() {
        const std::lock_guard lock(mutex_);
        runs_ = ::pthread_getcpuclockid(::pthread_self(), &clock_) == 0;
    }
    /// Before the thread ends.
    void stop() {
        const std::lock_guard lock(mutex_);
        seconds_ = runs_ ? now() : 0;
        runs_ = false;
    }
    [[nodiscard]] double seconds() const {
        const std::lock_guard lock(mutex_);
        return runs_ ? now() : seconds_;
    }

private:
    [[nodiscard]] double now() const {
        timespec time{};
        ::clock_gettime(clock_, &time);
        return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    }

    mutable std::mutex mutex_;
    bool runs_ = false;
    clockid_t clock_{};
    double seconds_ = 0;
};

}  // namespace cohort
