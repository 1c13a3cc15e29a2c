#pragma once

#include <pthread.h>

#include <chrono>
#include <ctime>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "cohort/comm/operations.hpp"
#include "comm/world/membership_control.hpp"
#include "comm/world/progress_loop.hpp"
#include "comm/world/watchdog.hpp"
#include "core/system/launch_env.hpp"

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

/// The parts of a world on one rank, in the order in which they build on each other.
struct WorldParts {
    explicit WorldParts(const WorldOptions& with);

    const WorldOptions options;
    const LaunchEnv env = read_launch_env();
    OperationBoard board;
    Ports ports;
    Network network;
    CommandQueue commands{network.bells, board};
    ProgressLoop progress{network, commands};
    CutOff cut_off;
    JobEnd job_end{network, commands, board, cut_off};
    Agreement agreement{network, commands, board};
    SuccessionControl succession{network,   progress, ports,
                                 agreement, job_end,  options.lost_after_s};
    MembershipControl membership{network, commands,  progress,  cut_off,
                                 job_end, agreement, succession};
    CollectiveContext collectives{network, commands, progress, board};
};

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
    void deliver_news(const Packet& packet, bool from_excluded);
    void look_after(Instant now, Instant::duration since);
    void hear_pool();
    void start_watchdog();

    WorldParts& parts_;
    ThreadClock clock_;
    std::unique_ptr<Watchdog> watchdog_;
    std::thread thread_;
};

}  // namespace cohort
