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

/// The engine's state and the steps of its events. An event changes the state of one worker or of
/// all workers; then settle() fires the cohorts that can fire and releases the workers that nothing
/// holds back.
struct UpdateEngine::Impl {
    Impl(const EngineOptions& engine_options, SyncPlan first_plan);

    EngineOptions options;
    SyncPlan plan;
    VersionHistory history;
    std::vector<WorkerState> workers;
    std::vector<CohortState> cohorts;
    std::deque<std::size_t> touched;  ///< cohorts, in order
    std::vector<WorkerState*> ready;  ///< scratch of release_ready
    std::vector<PendingPush> firing;  ///< scratch of fire
    int live_workers;
    std::int64_t pending = 0;
    std::int64_t slowest = 0;    ///< with a gate: smallest clock of the active workers
    std::uint64_t arrivals = 0;  ///< number of the next push or worker that begins to wait
    EngineAccounts accounts;
    double noise_scale = 0;  ///< phi; 0: not known

    using Effects = std::vector<Effect>;

    // Places (engine_install.cpp).
    void place_workers();
    void rehome(std::vector<PendingPush> grandfathered);
    void install(SyncPlan next, Effects& effects);
    void fire_foreign(Work work, Effects& effects);

    // Workers (engine_workers.cpp).
    [[nodiscard]] WorkerState& worker(int index);
    [[nodiscard]] bool releasable(const WorkerState& w) const;
    void refresh(WorkerState& w);
    void refresh_all();
    void touch(std::size_t cohort);
    void wake(WorkerState& w);
    void rebase(WorkerState& w);
    void wait(WorkerState& w);
    void release(WorkerState& w) const;
    void release_one(WorkerState& w, Effects& effects) const;
    void release_ready(Effects& effects);
    void give_back(WorkerState& w, const OpenLease& lease, ReturnReason reason, Effects& effects);
    void give_back_all(WorkerState& w, ReturnReason reason, Effects& effects);
    void interrupt(WorkerState& w, Effects& effects);
    /// Fires cohorts and releases workers. @param w  worker whose state has changed; null: any
    void settle(WorkerState* w, Effects& effects);

    // Pushes (engine_push.cpp).
    void push(const PushTicket& ticket, Effects& effects);
    [[nodiscard]] std::optional<OpenLease> take_lease(WorkerState& w, std::uint64_t id);
    [[nodiscard]] std::optional<ReturnReason> judge(WorkerState& w, const PushTicket& ticket);
    [[nodiscard]] bool too_late(const WorkerState& w, std::int64_t version) const;
    void accept(WorkerState& w, const PushTicket& ticket, Effects& effects);
    void add_pending(WorkerState& w, const PendingPush& push, bool counts);
    void withdraw(const std::vector<PushId>& gone, Effects& effects);
    void drop_pending(Effects& effects);

    // Fires (engine_fire.cpp).
    [[nodiscard]] bool over_bound(double lag) const noexcept;
    [[nodiscard]] double batches_of(std::int64_t samples) const noexcept;
    [[nodiscard]] double worth(std::int64_t samples, Work work) const noexcept;
    [[nodiscard]] bool fires(const CohortState& cohort) const noexcept;
    void fire(CohortState& cohort, Effects& effects);
    void apply(const std::vector<PendingPush>& pushes, int quorum, Effects& effects);
    void weigh(Fire& update, int quorum);
    void account(const Fire& update);
    void release_contributors(Fire& update);
    void interrupt_others(const CohortState& cohort, Effects& effects);
    void interrupt_laggards(Effects& effects);
    void forget_versions();
};

}  // namespace cohort
