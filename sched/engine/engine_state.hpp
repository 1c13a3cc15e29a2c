#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "cohort/sched/update_engine.hpp"
#include "sched/engine/version_history.hpp"

namespace cohort {

using Effects = std::vector<Effect>;

/// A lease that was dealt and not pushed yet.
struct OpenLease {
    std::uint64_t id = 0;
    std::int64_t samples = 0;
};

/// A push that waits for its cohort to fire.
struct PendingPush {
    PushTicket ticket;
    std::uint64_t arrival = 0;  ///< number in the order of arrival
    bool counts = true;         ///< counts towards the quorum if its worker is a member
};

struct WorkerState {
    int index = 0;
    std::uint32_t incarnation = 0;
    bool live = true;
    bool told_idle = true;  ///< gets no further lease; idle once it has pushed the leases it has
    bool waiting = false;   ///< has pushed and was not released since
    std::uint64_t waiting_since = 0;
    std::size_t cohort = 0;
    bool rider = false;
    bool able = false;         ///< counted in its cohort's `able`
    int pending = 0;           ///< pushes of this incarnation that are pending
    int counted = 0;           ///< pending pushes, of any incarnation, that count
    std::int64_t version = 0;  ///< version that it was released with
    std::int64_t clock = 0;
    double last_lag = 0;  ///< lag of its last push, in the optimizer's unit: sum of f
    int setbacks = 0;     ///< interruptions and refusals in a row, for its lag
    ReturnReason last_return = ReturnReason::kDropped;
    std::vector<OpenLease> leases;  ///< in the order in which they are computed

    [[nodiscard]] bool idle() const noexcept { return told_idle && leases.empty(); }
    [[nodiscard]] bool active() const noexcept { return live && !idle(); }
    [[nodiscard]] bool computing() const noexcept { return active() && !waiting; }
};

/// Older than any version: no push is late for a cohort that has not fired.
inline constexpr std::int64_t kNeverFired = std::numeric_limits<std::int64_t>::min();

struct CohortState {
    CohortSpec spec;
    std::vector<PendingPush> pending;
    int counting = 0;                    ///< pending pushes (or workers) that the quorum counts
    int able = 0;                        ///< members that can still add to `counting`
    std::int64_t version = kNeverFired;  ///< version of its last fire under this plan
    std::vector<std::int64_t> late;      ///< versions of its last fires, oldest first
    bool touched = false;                ///< to be checked: may fire
};

/// Interruptions or refusals in a row; the push after them is admitted.
inline constexpr int kSetbacks = 2;

/// What the parts of an engine work on.
struct EngineState {
    EngineState(const EngineOptions& engine_options, SyncPlan first_plan);

    [[nodiscard]] WorkerState& worker(int index);
    /// The cohort may fire: it is to be looked at.
    void touch(std::size_t cohort);
    [[nodiscard]] bool over_bound(double lag) const noexcept;
    /// Reference batches that so many samples are.
    [[nodiscard]] double batches_of(std::int64_t samples) const noexcept {
        return static_cast<double>(samples) / static_cast<double>(options.reference_batch);
    }

    EngineOptions options;
    SyncPlan plan;
    VersionHistory history;
    std::vector<WorkerState> workers;
    std::vector<CohortState> cohorts;
    std::deque<std::size_t> touched;  ///< cohorts, in order
    int live_workers;
    std::int64_t pending = 0;  ///< pushes
    EngineAccounts accounts;
    double noise_scale = 0;  ///< phi; 0: not known
};

/// Which workers can still push, which ones a gate or an unfired push holds back, and the leases
/// that are taken back from them.
class WorkerGate {
public:
    explicit WorkerGate(EngineState& state) : s_(state) {}

    /// Brings a worker's, or every worker's, share in its cohort's `able` up to date.
    void refresh(WorkerState& w);
    void refresh_all();
    /// The worker has or will have a lease.
    void wake(WorkerState& w);
    /// The worker has pushed.
    void wait(WorkerState& w);
    /// Neither an unfired push nor the gate holds the worker back.
    [[nodiscard]] bool releasable(const WorkerState& w) const;
    void release(WorkerState& w) const;
    void release_one(WorkerState& w, Effects& effects) const;
    /// Releases all workers that nothing holds back any more, longest waiting first.
    void release_ready(Effects& effects);
    void give_back(WorkerState& w, const OpenLease& lease, ReturnReason reason, Effects& effects);
    void give_back_all(WorkerState& w, ReturnReason reason, Effects& effects);
    /// The worker gives up its lease and starts on the next with the newest parameters.
    void interrupt(WorkerState& w, Effects& effects);

private:
    void rebase(WorkerState& w);

    EngineState& s_;
    std::vector<WorkerState*> ready_;  ///< scratch of release_ready
    std::int64_t slowest_ = 0;         ///< least clock of the active workers, with a gate
    std::uint64_t arrivals_ = 0;       ///< numbers those that begin to wait
};

/// The pushes that wait for their cohorts to fire.
class PendingPushes {
public:
    PendingPushes(EngineState& state, WorkerGate& gate) : s_(state), gate_(gate) {}

    /// @param counts towards the quorum, if it is a member's
    void add(WorkerState& w, const PendingPush& push, bool counts);
    /// Makes the plan's cohorts, empty. A worker without a place becomes a rider of the first.
    void place_workers();
    /// The pushes of all cohorts.
    [[nodiscard]] std::vector<PendingPush> all() const;
    /// Puts pushes, by arrival, into their workers' cohorts, where they count whatever their
    /// version. The cohort is looked at first whose newest push is the oldest.
    void rehome(std::vector<PendingPush> carried_over);
    /// Pushes of lost workers that cannot be applied any more; the others are counted again.
    void withdraw(const std::vector<PushId>& gone, Effects& effects);
    /// The end: no pending push is applied any more.
    void drop_all(Effects& effects);

private:
    void refuse(const PendingPush& push, ReturnReason reason, Effects& effects);

    EngineState& s_;
    WorkerGate& gate_;
};

/// Fires: when, what an update is worth and weighs, which workers go on with its version. Cost:
/// linear in the pushes of the fire; with a lag rule also in the workers.
class Firing {
public:
    Firing(EngineState& state, WorkerGate& gate) : s_(state), gate_(gate) {}

    [[nodiscard]] static bool fires(const CohortState& cohort) noexcept;
    void fire(CohortState& cohort, Effects& effects);
    /// Makes an update of these pushes.
    void apply(const std::vector<PendingPush>& pushes, int quorum, Effects& effects);
    /// Workers that compute on parameters over the bound give up, unless their next push is
    /// admitted anyway.
    void interrupt_laggards(Effects& effects);

private:
    void weigh(Fire& update, int quorum);
    void account(const Fire& update);
    void release_contributors(Fire& update);
    void interrupt_others(const CohortState& cohort, Effects& effects);
    void forget_versions();

    EngineState& s_;
    WorkerGate& gate_;
    std::vector<PendingPush> firing_;  ///< scratch of fire
};

/// The steps that the engine's events are made of. An event changes the state of one worker or of
/// all, then settle() lets fire what can fire and releases the workers that nothing holds back.
struct UpdateEngine::Impl {
    Impl(const EngineOptions& engine_options, SyncPlan first_plan);

    void install(SyncPlan next, Effects& effects);
    void push(const PushTicket& ticket, Effects& effects);
    /// @param w whose state has changed; null: any worker's
    void settle(WorkerState* w, Effects& effects);

    EngineState state;
    WorkerGate gate{state};
    PendingPushes pushes{state, gate};
    Firing firing{state, gate};

private:
    void fire_foreign(Work work, Effects& effects);
    [[nodiscard]] static std::optional<OpenLease> take_lease(WorkerState& w, std::uint64_t id);
    [[nodiscard]] std::optional<ReturnReason> judge(WorkerState& w, const PushTicket& ticket);
    [[nodiscard]] bool too_late(const WorkerState& w, std::int64_t version) const;
    void accept(WorkerState& w, const PushTicket& ticket, Effects& effects);
};

}  // namespace cohort
