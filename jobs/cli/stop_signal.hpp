#pragma once

#include <atomic>
#include <string>
#include <thread>

namespace cohort {

/// Watches for Ctrl-C, TERM and USR1 while it lives. The first one sets `requested`. A second
/// Ctrl-C ends the process at once with status 130, and so does, with status 143, a TERM more than
/// a second after the first one. Signals are blocked and read by a thread, so
/// there is no handler and no global state: construct it before any other thread starts.
class StopSignal {
public:
    /// @param what  happens then, for the log
    explicit StopSignal(std::string what = "finishing the step, then checkpoint and exit");
    StopSignal(const StopSignal&) = delete;
    StopSignal& operator=(const StopSignal&) = delete;
    ~StopSignal();
    [[nodiscard]] bool requested() const noexcept { return requested_.load(); }

private:
    void watch();

    std::string what_;
    std::atomic<bool> requested_{false};
    std::atomic<bool> quitting_{false};
    std::thread thread_;
};

}  // namespace cohort
