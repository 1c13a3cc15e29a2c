#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "cohort/comm/operations.hpp"
#include "cohort/comm/rank_map.hpp"
#include "cohort/comm/world.hpp"
#include "comm/transfer/pacer.hpp"
#include "comm/world/members.hpp"

namespace cohort {

struct Communicators;

/// A collective that the communication thread drives.
class Poller {
public:
    Poller() = default;
    Poller(const Poller&) = delete;
    Poller& operator=(const Poller&) = delete;
    virtual ~Poller() = default;
    /// One step, on the communication thread: may call MPI, never blocks. True: something moved,
    /// ask again soon. False: the thread may sleep until it is woken or, within at most 2 ms,
    /// looks again. An exception ends the job.
    virtual bool poll() = 0;
    /// Messages are under way between hosts, which cannot ring: pauses must be short. On the
    /// communication thread.
    [[nodiscard]] virtual bool moving() const { return false; }
    /// Ranks were excluded or admitted; also called when it is added. On the communication thread.
    virtual void members_changed() {}
};

/// The thread that owns MPI, as the collectives of this module see it. All calls are thread safe.
class CommThread {
public:
    CommThread() = default;
    CommThread(const CommThread&) = delete;
    CommThread& operator=(const CommThread&) = delete;
    virtual ~CommThread() = default;

    /// False in a world without MPI: it has one rank and no communicators.
    [[nodiscard]] virtual bool uses_mpi() const noexcept = 0;
    /// To be used on the communication thread only.
    [[nodiscard]] virtual const Communicators& communicators() const noexcept = 0;
    [[nodiscard]] virtual int rank() const noexcept = 0;
    [[nodiscard]] virtual const RankMap& map() const noexcept = 0;
    [[nodiscard]] virtual OperationBoard& operations() noexcept = 0;
    [[nodiscard]] virtual const Members& members() const noexcept = 0;

    /// `poller` is polled from now on, until it is removed.
    virtual void add_poller(Poller& poller) = 0;
    /// Returns when `poller` is no longer being polled. Not from within poll().
    virtual void remove_poller(Poller& poller) = 0;

    /// Makes the communication thread of this rank look again now. Cheap when it is awake.
    virtual void wake() noexcept = 0;
    /// The same for a rank of the same node; nothing for others.
    virtual void wake(int rank) noexcept = 0;

    /// Runs `work` on the communication thread and waits for its end; an exception comes out here.
    /// While it runs nothing else moves on this rank (set-up only). Called on the communication
    /// thread itself it runs at once. Errors: also PeerError when the thread has ended.
    virtual void run(const std::function<void()>& work) = 0;

    /// What limits the messages of this rank. To be used on the communication thread.
    [[nodiscard]] virtual Pacer& pacer() noexcept = 0;

    /// Something has come from another rank: it is alive. On the communication thread.
    virtual void heard(int rank) noexcept = 0;

    /// Counts bytes and messages that a collective moved between ranks (see TrafficCounters).
    virtual void count_sent(std::uint64_t bytes, std::uint64_t messages) noexcept = 0;
    virtual void count_received(std::uint64_t bytes, std::uint64_t messages) noexcept = 0;

    /// The highest number of a collective that this rank has had a part in. A new one takes a
    /// higher number, the same on all of its members, for its tags.
    [[nodiscard]] std::atomic<int>& last_collective() noexcept { return last_collective_; }

    /// NCCL could not be set up for a ring that this rank is a member of: kAuto does without it
    /// from then on.
    [[nodiscard]] std::atomic<bool>& nccl_failed() noexcept { return nccl_failed_; }

private:
    std::atomic<int> last_collective_{0};
    std::atomic<bool> nccl_failed_{false};
};

/// The communication thread of a world.
[[nodiscard]] CommThread& comm_thread(World& world) noexcept;

}  // namespace cohort
