#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <thread>

#include "comm/world/failure.hpp"

namespace cohort {

/// Watches the communication thread itself: when a rank dies while much is in flight over TCP,
/// Open MPI may never return from a call. One thread that looks ten times a second; it never calls
/// MPI.
class Watchdog {
public:
    using Cause = std::function<std::optional<Failure>(std::chrono::duration<double> stuck)>;
    /// @param cause  why this rank must end, asked once the thread is stuck for kStuckAfter
    /// @param limit  a thread that is stuck for longer ends the process without another cause
    /// @param end    ends the process
    Watchdog(const std::atomic<std::uint64_t>& steps, Cause cause,
             std::chrono::duration<double> limit, std::function<void(const Failure&)> end);

private:
    void watch(const std::stop_token& stop);

    const std::atomic<std::uint64_t>& steps_;
    Cause cause_;
    std::chrono::duration<double> limit_;
    std::function<void(const Failure&)> end_;
    std::jthread thread_;
};

}  // namespace cohort
