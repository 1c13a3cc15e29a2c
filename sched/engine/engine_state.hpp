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

/// A lease that has been given and not pushed.
struct OpenLease {
    std::uint64_t id = 0;
    std::int64_t samples = 0;
};

/// A push that waits for its cohort to fire.
struct PendingPush {
    PushTicket ticket;
    std::uint64_t arrival = 0;  ///< gives the order
    bool counts = true;         ///< towards the quorum, if it is a member's
};

struct WorkerState {
    int index = 0;
    std::uint32_t incarnation = 0;
    bool live = true;
    bool told_idle = true;  ///< gets no further lease; idle once it has pushed those it has
    bool waiting = false;   ///< has pushed and was not released since
    std::uint64_t waiting_since = 0;
    std::size_t cohort = 0;
    bool rider = false;
    bool able = false;         ///< is part of its cohort's `able`
    int pending = 0;           ///< pushes of this incarnation that are pending
    int counted = 0;           ///< pending pushes, of any incarnation, that count
    std::int64_t version = 0;  ///< released with
    std::int64_t clock = 0;
    double last_lag = 0;  ///< of its last push, in the optimizer's unit: sum of f
    int setbacks = 0;     ///< interruptions and refusals in a row, for its lag
    ReturnReason last_return = ReturnReason::kDropped;
    std::vector<OpenLease> leases;  ///< in the order in which they are worked on

    [[nodiscard]] bool idle() const noexcept { return told_idle && leases.empty(); }
    [[nodiscard]] bool active() const noexcept { return live && !idle(); }
    [[nodiscard]] bool computing() const noexcept { return active() && !waiting; }
};

/// Older than any version: nothing is late for a cohort that has not fired.
inline constexpr std::int64_t kNeverFired = std::numeric_limits<std::int64_t>::min();

struct CohortState {
    CohortSpec spec;
    std::vector<PendingPush> pending;
    int counting = 0;                    ///< what the quorum counts among them
    int able = 0;                        ///< members that can still add to that
    std::int64_t version = kNeverFired;  ///< of its last fire under this plan
    std::vector<std::int64_t> late;      ///< versions of its last fires, oldest first
    bool touched = false;                ///< to be looked at: may fire
};

/// In a row; the push after them is admitted.
inline constexpr int kSetbacks = 2;

/// The engine's state and the steps its events are made of. An event changes the state of one
/// worker or of all, then settle() lets fire what can fire and release whom nothing holds back.
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
    std::int64_t slowest = 0;    ///< least clock of the active workers, with a gate
    std::uint64_t arrivals = 0;  ///< numbers those that begin to wait
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
    /// Lets fire and release. @param w whose state has changed; null: anybody's
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
