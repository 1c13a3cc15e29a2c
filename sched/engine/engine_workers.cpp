#include <algorithm>
#include <limits>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/engine/engine_state.hpp"

namespace cohort {

EngineState::EngineState(const EngineOptions& engine_options, SyncPlan first_plan)
    : options(engine_options),
      plan(std::move(first_plan)),
      history(engine_options.version, engine_options.reference_batches),
      workers(static_cast<std::size_t>(engine_options.workers)),
      live_workers(engine_options.workers) {
    for (std::size_t i = 0; i < workers.size(); ++i) {
        workers[i].index = static_cast<int>(i);
        workers[i].version = engine_options.version;
    }
}

WorkerState& EngineState::worker(int index) {
    check_invariant(index >= 0 && static_cast<std::size_t>(index) < workers.size(),
                    "a worker of this run");
    return workers[static_cast<std::size_t>(index)];
}

void EngineState::touch(std::size_t cohort) {
    if (!cohorts[cohort].touched) {
        cohorts[cohort].touched = true;
        touched.push_back(cohort);
    }
}

/// Sums of fractions are not exact: what is over the bound by less is not over it.
bool EngineState::over_bound(double lag) const noexcept {
    constexpr double kTolerance = 1e-9;
    return plan.lag_rule && lag > plan.lag_rule->bound + kTolerance;
}

bool WorkerGate::releasable(const WorkerState& w) const {
    const int window = s_.plan.release == SyncPlan::Release::kOnFire ? 1 : s_.plan.window;
    return w.live && w.pending < window &&
           !(s_.plan.clock_bound && w.clock - slowest_ > *s_.plan.clock_bound);
}

void WorkerGate::refresh(WorkerState& w) {
    CohortState& cohort = s_.cohorts[w.cohort];
    const bool adds = cohort.spec.count == CohortSpec::Count::kPushes || w.counted == 0;
    const bool able = !w.rider && adds && w.active() && (!w.waiting || releasable(w));
    if (able != w.able) {
        w.able = able;
        cohort.able += able ? 1 : -1;
        if (!able) {
            s_.touch(w.cohort);
        }
    }
}

void WorkerGate::refresh_all() {
    slowest_ = std::numeric_limits<std::int64_t>::max();
    for (const WorkerState& w : s_.workers) {
        slowest_ = w.active() ? std::min(slowest_, w.clock) : slowest_;
    }
    for (WorkerState& w : s_.workers) {
        refresh(w);
    }
}

/// An inactive worker's clock stood still: it goes on with the slowest of the others, and when it
/// holds parameters, so that it may start, within the gate's bound.
void WorkerGate::rebase(WorkerState& w) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const WorkerState& other : s_.workers) {
        least = other.active() && &other != &w ? std::min(least, other.clock) : least;
    }
    if (least != std::numeric_limits<std::int64_t>::max()) {
        w.clock = std::max(w.clock, least);
        w.clock = w.waiting ? w.clock : std::min(w.clock, least + *s_.plan.clock_bound);
    }
}

void WorkerGate::wake(WorkerState& w) {
    if (w.idle() && s_.plan.clock_bound) {
        rebase(w);
    }
    w.told_idle = false;
}

void WorkerGate::wait(WorkerState& w) {
    w.waiting = true;
    w.waiting_since = ++arrivals_;
}

void WorkerGate::release(WorkerState& w) const {
    w.waiting = false;
    w.version = s_.history.version();
}

void WorkerGate::release_ready(Effects& effects) {
    ready_.clear();
    for (WorkerState& w : s_.workers) {
        if (w.waiting && releasable(w)) {
            ready_.push_back(&w);
        }
    }
    std::ranges::sort(ready_, {}, &WorkerState::waiting_since);
    for (WorkerState* w : ready_) {
        release_one(*w, effects);
    }
}

void WorkerGate::release_one(WorkerState& w, Effects& effects) const {
    release(w);
    effects.emplace_back(ReleaseOne{
        .worker = w.index, .version = w.version, .lag = s_.plan.look_ahead ? w.last_lag : 0});
}

void WorkerGate::give_back(WorkerState& w, const OpenLease& lease, ReturnReason reason,
                           Effects& effects) {
    s_.accounts.outstanding -= lease.samples;
    s_.accounts.returned[static_cast<std::size_t>(reason)] += lease.samples;
    w.last_return = reason;
    effects.emplace_back(ReturnLease{
        .lease = lease.id, .samples = lease.samples, .worker = w.index, .reason = reason});
}

void WorkerGate::give_back_all(WorkerState& w, ReturnReason reason, Effects& effects) {
    for (const OpenLease& lease : w.leases) {
        give_back(w, lease, reason, effects);
    }
    w.leases.clear();
}

void WorkerGate::interrupt(WorkerState& w, Effects& effects) {
    const double behind = s_.history.lag(w.version);
    release(w);
    effects.emplace_back(Interrupt{.worker = w.index,
                                   .version = w.version,
                                   .lag = s_.plan.look_ahead ? w.last_lag : 0,
                                   .behind = behind});
    if (!w.leases.empty()) {
        give_back(w, w.leases.front(), ReturnReason::kInterrupted, effects);
        w.leases.erase(w.leases.begin());
    }
    refresh(w);
}

void PendingPushes::add(WorkerState& w, const PendingPush& push, bool counts) {
    CohortState& cohort = s_.cohorts[w.cohort];
    cohort.pending.push_back(push);
    cohort.pending.back().counts = counts;
    if (counts && !w.rider) {
        const bool adds = cohort.spec.count == CohortSpec::Count::kPushes || w.counted == 0;
        cohort.counting += adds ? 1 : 0;
        ++w.counted;
    }
    s_.touch(w.cohort);
}

void PendingPushes::place_workers() {
    s_.cohorts.assign(s_.plan.cohorts.size(), {});
    s_.touched.clear();
    for (WorkerState& w : s_.workers) {
        w.cohort = 0;
        w.rider = true;
        w.able = false;
        w.counted = 0;
    }
    for (std::size_t i = 0; i < s_.cohorts.size(); ++i) {
        s_.cohorts[i].spec = s_.plan.cohorts[i];
        for (const int member : s_.plan.cohorts[i].members) {
            s_.worker(member).cohort = i;
            s_.worker(member).rider = false;
        }
        for (const int rider : s_.plan.cohorts[i].riders) {
            s_.worker(rider).cohort = i;
        }
    }
}

std::vector<PendingPush> PendingPushes::all() const {
    std::vector<PendingPush> pushes;
    for (const CohortState& cohort : s_.cohorts) {
        pushes.insert(pushes.end(), cohort.pending.begin(), cohort.pending.end());
    }
    return pushes;
}

void PendingPushes::rehome(std::vector<PendingPush> carried_over) {
    std::ranges::sort(carried_over, [](const PendingPush& a, const PendingPush& b) {
        return a.arrival < b.arrival;
    });
    for (const PendingPush& push : carried_over) {
        add(s_.worker(push.ticket.id.worker), push, true);
    }
    s_.touched.clear();
    for (CohortState& cohort : s_.cohorts) {
        cohort.touched = true;
        s_.touched.push_back(static_cast<std::size_t>(&cohort - s_.cohorts.data()));
    }
    std::ranges::stable_sort(s_.touched, {}, [this](std::size_t i) {
        return s_.cohorts[i].pending.empty() ? 0 : s_.cohorts[i].pending.back().arrival;
    });
}

void PendingPushes::refuse(const PendingPush& push, ReturnReason reason, Effects& effects) {
    --s_.pending;
    effects.emplace_back(Refuse{.push = push.ticket.id, .reason = reason});
    gate_.give_back(s_.worker(push.ticket.id.worker),
                    {.id = push.ticket.lease, .samples = push.ticket.samples}, reason, effects);
}

void PendingPushes::withdraw(const std::vector<PushId>& gone, Effects& effects) {
    for (std::size_t i = 0; i < s_.cohorts.size() && !gone.empty(); ++i) {
        const std::vector<PendingPush> pushes = std::exchange(s_.cohorts[i].pending, {});
        s_.cohorts[i].counting = 0;
        for (const PendingPush& push : pushes) {
            s_.worker(push.ticket.id.worker).counted = 0;
        }
        for (const PendingPush& push : pushes) {
            if (std::ranges::find(gone, push.ticket.id) == gone.end()) {
                add(s_.worker(push.ticket.id.worker), push, push.counts);
            } else {
                refuse(push, ReturnReason::kLost, effects);
            }
        }
    }
}

void PendingPushes::drop_all(Effects& effects) {
    for (CohortState& cohort : s_.cohorts) {
        for (const PendingPush& push : cohort.pending) {
            WorkerState& w = s_.worker(push.ticket.id.worker);
            w.counted = 0;
            w.pending = 0;
            refuse(push, ReturnReason::kStop, effects);
        }
        cohort.pending.clear();
        cohort.counting = 0;
    }
}

}  // namespace cohort
