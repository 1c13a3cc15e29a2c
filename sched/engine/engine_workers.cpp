#include <algorithm>
#include <limits>

#include "cohort/core/error.hpp"
#include "sched/engine/engine_state.hpp"

// Workers: which can still push, which are held back by a gate or an unfired push, returned leases.
namespace cohort {

WorkerState& UpdateEngine::Impl::worker(int index) {
    check_invariant(index >= 0 && static_cast<std::size_t>(index) < workers.size(),
                    "a worker of this run");
    return workers[static_cast<std::size_t>(index)];
}

/// Neither an unfired push nor the gate holds the worker back.
bool UpdateEngine::Impl::releasable(const WorkerState& w) const {
    const int window = plan.release == SyncPlan::Release::kOnFire ? 1 : plan.window;
    return w.live && w.pending < window &&
           !(plan.clock_bound && w.clock - slowest > *plan.clock_bound);
}

void UpdateEngine::Impl::touch(std::size_t cohort) {
    if (!cohorts[cohort].touched) {
        cohorts[cohort].touched = true;
        touched.push_back(cohort);
    }
}

/// Brings its cohort's `able` up to date.
void UpdateEngine::Impl::refresh(WorkerState& w) {
    CohortState& cohort = cohorts[w.cohort];
    const bool adds = cohort.spec.count == CohortSpec::Count::kPushes || w.counted == 0;
    const bool able = !w.rider && adds && w.active() && (!w.waiting || releasable(w));
    if (able != w.able) {
        w.able = able;
        cohort.able += able ? 1 : -1;
        if (!able) {
            touch(w.cohort);
        }
    }
}

void UpdateEngine::Impl::refresh_all() {
    slowest = std::numeric_limits<std::int64_t>::max();
    for (const WorkerState& w : workers) {
        slowest = w.active() ? std::min(slowest, w.clock) : slowest;
    }
    for (WorkerState& w : workers) {
        refresh(w);
    }
}

/// An inactive worker's clock stood still: it is set to the clock of the slowest active worker. If
/// the worker holds parameters, so that it may start, its clock stays within the gate's bound.
void UpdateEngine::Impl::rebase(WorkerState& w) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const WorkerState& other : workers) {
        least = other.active() && &other != &w ? std::min(least, other.clock) : least;
    }
    if (least != std::numeric_limits<std::int64_t>::max()) {
        w.clock = std::max(w.clock, least);
        w.clock = w.waiting ? w.clock : std::min(w.clock, least + *plan.clock_bound);
    }
}

/// The worker has or will have a lease.
void UpdateEngine::Impl::wake(WorkerState& w) {
    if (w.idle() && plan.clock_bound) {
        rebase(w);
    }
    w.told_idle = false;
}

void UpdateEngine::Impl::wait(WorkerState& w) {
    w.waiting = true;
    w.waiting_since = ++arrivals;
}

void UpdateEngine::Impl::release(WorkerState& w) const {
    w.waiting = false;
    w.version = history.version();
}

/// Releases all workers that nothing holds back any more, the longest waiting first.
void UpdateEngine::Impl::release_ready(Effects& effects) {
    ready.clear();
    for (WorkerState& w : workers) {
        if (w.waiting && releasable(w)) {
            ready.push_back(&w);
        }
    }
    std::sort(ready.begin(), ready.end(), [](const WorkerState* a, const WorkerState* b) {
        return a->waiting_since < b->waiting_since;
    });
    for (WorkerState* w : ready) {
        release_one(*w, effects);
    }
}

void UpdateEngine::Impl::release_one(WorkerState& w, Effects& effects) const {
    release(w);
    effects.emplace_back(ReleaseOne{
        .worker = w.index, .version = w.version, .lag = plan.look_ahead ? w.last_lag : 0});
}

void UpdateEngine::Impl::give_back(WorkerState& w, const OpenLease& lease, ReturnReason reason,
                                   Effects& effects) {
    accounts.outstanding -= lease.samples;
    accounts.returned[static_cast<std::size_t>(reason)] += lease.samples;
    w.last_return = reason;
    effects.emplace_back(ReturnLease{
        .lease = lease.id, .samples = lease.samples, .worker = w.index, .reason = reason});
}

void UpdateEngine::Impl::give_back_all(WorkerState& w, ReturnReason reason, Effects& effects) {
    for (const OpenLease& lease : w.leases) {
        give_back(w, lease, reason, effects);
    }
    w.leases.clear();
}

/// The worker gives up its present lease and starts on the next one with the newest parameters.
void UpdateEngine::Impl::interrupt(WorkerState& w, Effects& effects) {
    const double behind = history.lag(w.version);
    release(w);
    effects.emplace_back(Interrupt{.worker = w.index,
                                   .version = w.version,
                                   .lag = plan.look_ahead ? w.last_lag : 0,
                                   .behind = behind});
    if (!w.leases.empty()) {
        give_back(w, w.leases.front(), ReturnReason::kInterrupted, effects);
        w.leases.erase(w.leases.begin());
    }
    refresh(w);
}

void UpdateEngine::Impl::settle(WorkerState* w, Effects& effects) {
    const bool anybody = w == nullptr || plan.clock_bound.has_value();
    if (!anybody) {
        refresh(*w);
    }
    if (anybody) {
        refresh_all();
    }
    while (!touched.empty()) {  // a fire may touch more
        CohortState& cohort = cohorts[touched.front()];
        touched.pop_front();
        cohort.touched = false;
        if (fires(cohort)) {
            fire(cohort, effects);
        }
    }
    if (anybody) {
        refresh_all();  // an interrupted worker may be idle now: another may be the slowest
    }
    if (anybody) {
        release_ready(effects);
    } else if (w->waiting && releasable(*w)) {
        release_one(*w, effects);
    }
}

}  // namespace cohort
