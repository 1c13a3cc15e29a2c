#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/engine/engine_state.hpp"

// Installation of a plan: a fence at which no push is lost.
namespace cohort {

UpdateEngine::Impl::Impl(const EngineOptions& engine_options, SyncPlan first_plan)
    : options(engine_options),
      plan(std::move(first_plan)),
      history(engine_options.version, engine_options.reference_batches),
      workers(static_cast<std::size_t>(engine_options.workers)),
      live_workers(engine_options.workers) {
    for (std::size_t i = 0; i < workers.size(); ++i) {
        workers[i].index = static_cast<int>(i);
        workers[i].version = engine_options.version;
    }
    place_workers();
}

/// Makes the plan's cohorts, empty. Workers without a place become riders of the first cohort.
void UpdateEngine::Impl::place_workers() {
    cohorts.assign(plan.cohorts.size(), {});
    touched.clear();
    for (WorkerState& w : workers) {
        w.cohort = 0;
        w.rider = true;
        w.able = false;
        w.counted = 0;
    }
    for (std::size_t i = 0; i < cohorts.size(); ++i) {
        cohorts[i].spec = plan.cohorts[i];
        for (const int member : plan.cohorts[i].members) {
            worker(member).cohort = i;
            worker(member).rider = false;
        }
        for (const int rider : plan.cohorts[i].riders) {
            worker(rider).cohort = i;
        }
    }
}

/// 1. Pending pushes that cannot be mixed with pushes of the new plan are applied under the old
/// plan. 2. The other pending pushes move to their workers' new cohorts, where they count whatever
/// their version; so do pushes being computed now, until the cohort fires.
/// 3. Clocks are reset. 4. Cohorts that now meet their quorum fire, the one whose newest push is
/// the oldest first; workers that are no longer held back are released, workers over the new bound
/// are interrupted.
void UpdateEngine::Impl::install(SyncPlan next, Effects& effects) {
    plan.look_ahead = next.look_ahead;  // workers released from now on work under the new plan
    fire_foreign(next.work, effects);
    std::vector<PendingPush> grandfathered;
    for (CohortState& cohort : cohorts) {
        grandfathered.insert(grandfathered.end(), cohort.pending.begin(), cohort.pending.end());
    }
    plan = std::move(next);
    place_workers();
    rehome(std::move(grandfathered));
    for (WorkerState& w : workers) {
        w.clock = 0;
    }
    interrupt_laggards(effects);
    settle(nullptr, effects);
}

void UpdateEngine::Impl::fire_foreign(Work work, Effects& effects) {
    if (work == plan.work) {
        return;
    }
    for (CohortState& cohort : cohorts) {  // one work per plan: all or nothing
        if (!cohort.pending.empty()) {
            fire(cohort, effects);
        }
    }
}

void UpdateEngine::Impl::rehome(std::vector<PendingPush> grandfathered) {
    std::sort(grandfathered.begin(), grandfathered.end(),
              [](const PendingPush& a, const PendingPush& b) { return a.arrival < b.arrival; });
    for (const PendingPush& push : grandfathered) {
        add_pending(worker(push.ticket.id.worker), push, true);
    }
    touched.clear();
    for (CohortState& cohort : cohorts) {
        cohort.touched = true;
        touched.push_back(static_cast<std::size_t>(&cohort - cohorts.data()));
    }
    std::stable_sort(touched.begin(), touched.end(), [this](std::size_t a, std::size_t b) {
        const auto newest = [this](std::size_t i) {
            return cohorts[i].pending.empty() ? 0 : cohorts[i].pending.back().arrival;
        };
        return newest(a) < newest(b);
    });
}

}  // namespace cohort
