#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "cohort/comm/operations.hpp"
#include "cohort/comm/world.hpp"
#include "comm/world/command_queue.hpp"
#include "comm/world/measured_choices.hpp"
#include "comm/world/network.hpp"

namespace cohort {

/// A collective that the communication thread drives.
class Poller {
public:
    Poller() = default;
    Poller(const Poller&) = delete;
    Poller& operator=(const Poller&) = delete;
    virtual ~Poller() = default;
    /// One step, on the communication thread: may call MPI, never blocks. True: something moved,
    /// poll again soon. False: the thread may sleep until it is woken; within at most 2 ms it polls
    /// again. An exception ends the job.
    virtual bool poll() = 0;
    /// Messages are in flight between hosts, which cannot ring: pauses must be short. On the
    /// communication thread.
    [[nodiscard]] virtual bool moving() const { return false; }
    /// Ranks were excluded or admitted; also called when the poller is added. On the communication
    /// thread.
    virtual void members_changed() {}
};

/// What the communication thread does over and over. Each step runs what other threads asked for,
/// moves messages and transfers, and polls collectives. The thread yields for some microseconds
/// after something has moved and then sleeps on its bell, at most 2 ms: MPI tells nobody when
/// something arrives from another host. Ranks of the own host ring, so that a job on one host may
/// sleep longer.
class ProgressLoop {
public:
    ProgressLoop(Network& network, CommandQueue& commands)
        : network_(network), commands_(commands) {}

    /// `poller` is polled from now on, until it is removed. From any thread.
    void add_poller(Poller& poller);
    /// Returns when `poller` is no longer being polled. From any thread, but not from within
    /// poll().
    void remove_poller(Poller& poller);
    /// Grows with every step; from any thread.
    [[nodiscard]] const std::atomic<std::uint64_t>& steps() const noexcept { return steps_; }

    // On the communication thread:
    struct Duties {
        std::function<void(Packet&&)> deliver;  ///< a control message has arrived
        std::function<void()> after_commands;
        /// Ten times a second. @param since  the call before
        std::function<void(Instant now, Instant::duration since)> look_after;
    };
    /// Returns when stop() was called and everything has left.
    void run(const Duties& duties);
    /// @param at_once  without waiting until everything has left
    void stop(bool at_once) noexcept;
    [[nodiscard]] bool stopped_at_once() const noexcept { return at_once_; }
    void members_changed();

private:
    bool step(const Duties& duties);
    [[nodiscard]] bool may_end();
    void sleep(std::uint32_t seen, Instant now);
    [[nodiscard]] std::chrono::microseconds longest_sleep(Instant now) const;

    Network& network_;
    CommandQueue& commands_;
    std::vector<Poller*> pollers_;
    bool stopping_ = false;
    bool at_once_ = false;
    Instant last_moved_;
    std::chrono::microseconds pause_{0};
    std::atomic<std::uint64_t> steps_{0};
};

/// What the collectives of this module use of the communication thread.
struct CollectiveContext {
    Network& network;
    CommandQueue& commands;
    ProgressLoop& progress;
    OperationBoard& operations;

    /// The highest number of a collective in which this rank has taken part. A new one takes a
    /// higher number, the same on all of its members, for its tags.
    std::atomic<int> last_collective{0};
    /// NCCL could not be set up for an all-reduce of which this rank is a member: kAuto does
    /// without NCCL from then on.
    std::atomic<bool> nccl_failed{false};
    /// What kAuto has measured in all-reduces of which this rank was a member.
    MeasuredChoices choices;
};

[[nodiscard]] CollectiveContext& collective_context(World& world) noexcept;

}  // namespace cohort
