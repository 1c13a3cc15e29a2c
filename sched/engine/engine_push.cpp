#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/engine/engine_state.hpp"

// Pushes: whether a push is expected, whether it is accepted, and the cohort in which it waits.
namespace cohort {

/// 1. A push whose lease was returned, or whose incarnation is over, is refused. 2. The lease is
/// used up. 3. The plan's tests: after a refusal the worker starts again; an accepted push waits
/// for its cohort. 4. Cohorts that can fire do so; workers that nothing holds back are released.
void UpdateEngine::Impl::push(const PushTicket& ticket, Effects& effects) {
    WorkerState& w = worker(ticket.id.worker);
    if (!w.live || ticket.id.incarnation != w.incarnation) {
        effects.emplace_back(Refuse{.push = ticket.id, .reason = ReturnReason::kLost});
        return;
    }
    const std::optional<OpenLease> lease = take_lease(w, ticket.lease);
    if (!lease) {
        effects.emplace_back(Refuse{.push = ticket.id, .reason = w.last_return});
        return;
    }
    check_invariant(!w.waiting, "a worker pushes once it is released");
    check_invariant(ticket.samples == lease->samples, "a push has the samples of its lease");
    check_invariant(ticket.version >= w.version && ticket.version <= history.version(),
                    "a push was computed on the parameters its worker was released with");
    wait(w);
    w.last_lag = history.worth(ticket.version, history.version());
    if (const std::optional<ReturnReason> reason = judge(w, ticket)) {
        effects.emplace_back(
            Refuse{.push = ticket.id, .reason = *reason, .lag = history.lag(ticket.version)});
        give_back(w, *lease, *reason, effects);
    } else {
        accept(w, ticket, effects);
    }
    settle(&w, effects);
}

std::optional<OpenLease> UpdateEngine::Impl::take_lease(WorkerState& w, std::uint64_t id) {
    const auto found = std::find_if(w.leases.begin(), w.leases.end(),
                                    [id](const OpenLease& lease) { return lease.id == id; });
    if (found == w.leases.end()) {
        return {};
    }
    const OpenLease lease = *found;
    w.leases.erase(found);
    return lease;
}

/// Why a push is refused; nothing when it is accepted.
std::optional<ReturnReason> UpdateEngine::Impl::judge(WorkerState& w, const PushTicket& ticket) {
    if (!ticket.finite) {
        return ReturnReason::kNonFinite;
    }
    if (ticket.work != plan.work) {
        return {};  // in flight when the plan changed: an update of its own
    }
    if (too_late(w, ticket.version)) {
        return ReturnReason::kDropped;
    }
    const bool lags = over_bound(history.lag(ticket.version)) &&
                      plan.lag_rule->action != SyncPlan::LagAction::kDiscount;
    if (lags && w.setbacks < kSetbacks) {
        ++w.setbacks;
        return ReturnReason::kDropped;
    }
    if (plan.accept && !plan.accept(ticket)) {
        return ReturnReason::kDropped;
    }
    return {};
}

/// A rider's push is never late: no round waits for it.
bool UpdateEngine::Impl::too_late(const WorkerState& w, std::int64_t version) const {
    const CohortState& cohort = cohorts[w.cohort];
    if (w.rider || version >= cohort.version) {
        return false;
    }
    if (plan.late == SyncPlan::Late::kDrop) {
        return true;
    }
    const auto missed =
        cohort.late.end() - std::upper_bound(cohort.late.begin(), cohort.late.end(), version);
    return plan.late_rounds && missed > *plan.late_rounds;
}

void UpdateEngine::Impl::accept(WorkerState& w, const PushTicket& ticket, Effects& effects) {
    ++w.clock;
    w.setbacks = 0;
    ++w.pending;
    ++pending;
    const PendingPush push{.ticket = ticket, .arrival = w.waiting_since};
    const CohortState& cohort = cohorts[w.cohort];
    const bool late = ticket.version < cohort.version;
    const bool alone = late && !w.rider && plan.late == SyncPlan::Late::kAlone;
    if (ticket.work != plan.work || alone) {
        apply({push}, 1, effects);
        interrupt_laggards(effects);
        return;
    }
    add_pending(w, push, !cohort.spec.fresh_only || !late);
}

/// @param counts  the push counts towards the quorum if its worker is a member
void UpdateEngine::Impl::add_pending(WorkerState& w, const PendingPush& push, bool counts) {
    CohortState& cohort = cohorts[w.cohort];
    cohort.pending.push_back(push);
    cohort.pending.back().counts = counts;
    if (counts && !w.rider) {
        const bool adds = cohort.spec.count == CohortSpec::Count::kPushes || w.counted == 0;
        cohort.counting += adds ? 1 : 0;
        ++w.counted;
    }
    touch(w.cohort);
}

/// Refuses pending pushes whose payloads are lost; the remaining pushes are counted again.
void UpdateEngine::Impl::withdraw(const std::vector<PushId>& gone, Effects& effects) {
    for (std::size_t i = 0; i < cohorts.size() && !gone.empty(); ++i) {
        const std::vector<PendingPush> all = std::exchange(cohorts[i].pending, {});
        cohorts[i].counting = 0;
        for (const PendingPush& push : all) {
            worker(push.ticket.id.worker).counted = 0;
        }
        for (const PendingPush& push : all) {
            WorkerState& w = worker(push.ticket.id.worker);
            if (std::find(gone.begin(), gone.end(), push.ticket.id) == gone.end()) {
                add_pending(w, push, push.counts);
                continue;
            }
            --pending;
            effects.emplace_back(Refuse{.push = push.ticket.id, .reason = ReturnReason::kLost});
            give_back(w, {.id = push.ticket.lease, .samples = push.ticket.samples},
                      ReturnReason::kLost, effects);
        }
    }
}

/// The end of a run: pending pushes are not applied any more.
void UpdateEngine::Impl::drop_pending(Effects& effects) {
    for (CohortState& cohort : cohorts) {
        for (const PendingPush& push : cohort.pending) {
            WorkerState& w = worker(push.ticket.id.worker);
            w.counted = 0;
            w.pending = 0;
            effects.emplace_back(Refuse{.push = push.ticket.id, .reason = ReturnReason::kStop});
            give_back(w, {.id = push.ticket.lease, .samples = push.ticket.samples},
                      ReturnReason::kStop, effects);
        }
        cohort.pending.clear();
        cohort.counting = 0;
    }
    pending = 0;
}

}  // namespace cohort
