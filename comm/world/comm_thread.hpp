#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "comm/world/thread_clock.hpp"
#include "comm/world/watchdog.hpp"
#include "comm/world/world_parts.hpp"

namespace cohort {

/// The communication thread: the only one that calls MPI. From the start of MPI to its end.
class CommThread {
public:
    explicit CommThread(WorldParts& parts) : parts_(parts) {}
    CommThread(const CommThread&) = delete;
    CommThread& operator=(const CommThread&) = delete;
    ~CommThread();

    /// Starts the thread; returns when the ranks know each other. Errors: those of World::World.
    void start();
    /// After ProgressLoop::stop(): waits for the end of the thread. MPI may take 3 times the stall
    /// limit, then the process ends.
    void join();
    /// Processor time of the thread.
    [[nodiscard]] double cpu_seconds() const { return clock_.seconds(); }

private:
    void run(std::promise<void>& ready);
    [[nodiscard]] bool open(std::promise<void>& ready);
    void close() noexcept;
    void deliver(Packet&& packet);
    void look_after(Instant now, Instant::duration since);
    void start_watchdog();

    WorldParts& parts_;
    ThreadClock clock_;
    std::unique_ptr<Watchdog> watchdog_;
    std::thread thread_;
};

}  // namespace cohort
