#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/engine/engine_state.hpp"

// Fires: when a cohort fires, the size of the update and the weights of its pushes, and which
// workers continue with its version. Cost: linear in the pushes of the fire; with a lag rule also
// in the workers.
namespace cohort {

/// Sums of fractions are not exact: a lag over the bound by a rounding error is not over it.
bool UpdateEngine::Impl::over_bound(double lag) const noexcept {
    constexpr double kTolerance = 1e-9;
    return plan.lag_rule && lag > plan.lag_rule->bound + kTolerance;
}

bool UpdateEngine::Impl::fires(const CohortState& cohort) const noexcept {
    return !cohort.pending.empty() && (cohort.counting >= cohort.spec.quorum || cohort.able == 0);
}

void UpdateEngine::Impl::fire(CohortState& cohort, Effects& effects) {
    firing.clear();
    std::swap(firing, cohort.pending);
    cohort.counting = 0;
    for (const PendingPush& push : firing) {
        worker(push.ticket.id.worker).counted = 0;
    }
    apply(firing, cohort.spec.quorum, effects);
    cohort.version = history.version();
    if (plan.late_rounds) {
        cohort.late.push_back(cohort.version);
        if (cohort.late.size() > static_cast<std::size_t>(*plan.late_rounds) + 1) {
            cohort.late.erase(cohort.late.begin());
        }
    }
    if (plan.others == SyncPlan::Others::kInterrupt) {
        interrupt_others(cohort, effects);
    }
    interrupt_laggards(effects);
}

/// 1. lag of each push, size and weights of the update; 2. its version; 3. releases of workers.
void UpdateEngine::Impl::apply(const std::vector<PendingPush>& pushes, int quorum,
                               Effects& effects) {
    Fire update;
    update.work = pushes.front().ticket.work;
    update.pushes.reserve(pushes.size());
    for (const PendingPush& push : pushes) {
        const double lag = history.lag(push.ticket.version);
        update.pushes.push_back({.ticket = push.ticket,
                                 .lag = lag,
                                 .lag_updates = history.version() - push.ticket.version});
        update.samples += push.ticket.samples;
    }
    pending -= static_cast<std::int64_t>(pushes.size());
    update.fraction = worth(update.samples, update.work);
    update.lr_scale = plan.lr_scale;
    update.version = history.version() + 1;
    weigh(update, quorum);
    account(update);
    history.append(batches_of(update.samples), update.fraction);
    release_contributors(update);
    effects.emplace_back(std::move(update));
    if (history.full()) {
        forget_versions();
    }
}

/// Converts samples to reference batches.
double UpdateEngine::Impl::batches_of(std::int64_t samples) const noexcept {
    return static_cast<double>(samples) / static_cast<double>(options.reference_batch);
}

/// f of an update, by the plan's rule; the learning rate of deltas was applied in the worker.
double UpdateEngine::Impl::worth(std::int64_t samples, Work work) const noexcept {
    if (work == Work::kDelta) {
        return batches_of(samples);
    }
    if (plan.lr_unit == SyncPlan::LrUnit::kPublished) {
        return static_cast<double>(samples) / static_cast<double>(plan.published_unit);
    }
    const double f = batches_of(samples);
    if (plan.lr_unit == SyncPlan::LrUnit::kAdaScale && noise_scale > 0) {
        const auto batch = static_cast<double>(options.reference_batch);
        return f * (noise_scale + batch) / (noise_scale + f * batch);
    }
    return f;
}

/// Weights by the plan; over the bound they are multiplied by min(1, 1/(lag + reference batches of
/// the push)). Pushes of another kind of work than the plan's have weight 1.
void UpdateEngine::Impl::weigh(Fire& update, int quorum) {
    if (update.work != plan.work) {
        return;
    }
    const FiringSet set{.version = update.version,
                        .reference_batch = options.reference_batch,
                        .workers = live_workers,
                        .quorum = quorum,
                        .reference_batches = history.reference_batches(),
                        .fraction = update.fraction,
                        .pushes = &update.pushes};
    for (FiredPush& push : update.pushes) {
        if (plan.weight) {
            push.weight = plan.weight(push, set);
            check_invariant(std::isfinite(push.weight) && push.weight >= 0,
                            "weights are finite and not negative");
        }
        push.over_bound = over_bound(push.lag);
        if (push.over_bound) {
            push.weight *= std::min(1.0, 1 / (push.lag + batches_of(update.samples)));
        }
    }
}

void UpdateEngine::Impl::account(const Fire& update) {
    accounts.outstanding -= update.samples;
    accounts.applied += update.samples;
    for (const FiredPush& push : update.pushes) {
        accounts.discounted += push.weight < 1 ? push.ticket.samples : 0;
        accounts.over_bound += push.over_bound ? push.ticket.samples : 0;
    }
}

void UpdateEngine::Impl::release_contributors(Fire& update) {
    for (const FiredPush& push : update.pushes) {
        WorkerState& w = worker(push.ticket.id.worker);
        if (w.live && w.incarnation == push.ticket.id.incarnation) {
            --w.pending;
            w.last_lag = history.worth(push.ticket.version, update.version - 1);
        }
    }
    update.releases.reserve(update.pushes.size());
    for (const FiredPush& push : update.pushes) {
        WorkerState& w = worker(push.ticket.id.worker);
        if (w.waiting && releasable(w)) {
            release(w);
            update.releases.push_back({.worker = w.index, .lag = plan.look_ahead ? w.last_lag : 0});
        }
        refresh(w);
    }
}

void UpdateEngine::Impl::interrupt_others(const CohortState& cohort, Effects& effects) {
    for (const int member : cohort.spec.members) {
        WorkerState& w = worker(member);
        if (w.computing() && w.version < history.version()) {
            interrupt(w, effects);
        }
    }
}

/// Interrupts workers that compute on parameters over the bound, unless their next push is admitted
/// anyway.
void UpdateEngine::Impl::interrupt_laggards(Effects& effects) {
    if (!plan.lag_rule || plan.lag_rule->action != SyncPlan::LagAction::kRefresh) {
        return;
    }
    for (WorkerState& w : workers) {
        if (w.computing() && w.setbacks < kSetbacks && over_bound(history.lag(w.version))) {
            w.setbacks += w.leases.empty() ? 0 : 1;
            interrupt(w, effects);
        }
    }
}

void UpdateEngine::Impl::forget_versions() {
    std::int64_t oldest = history.version();
    for (const WorkerState& w : workers) {
        oldest = w.live ? std::min(oldest, w.version) : oldest;
    }
    for (const CohortState& cohort : cohorts) {
        for (const PendingPush& push : cohort.pending) {
            oldest = std::min(oldest, push.ticket.version);
        }
    }
    history.forget_before(oldest);
}

}  // namespace cohort
