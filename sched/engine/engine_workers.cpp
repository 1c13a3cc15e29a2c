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
    std::sort(ready_.begin(), ready_.end(), [](const WorkerState* a, const WorkerState* b) {
        return a->waiting_since < b->waiting_since;
    });
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

}  // namespace cohort
