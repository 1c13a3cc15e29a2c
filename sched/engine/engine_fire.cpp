#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/engine/engine_state.hpp"
#include "sched/engine/fire_sum.hpp"

namespace cohort {

/// A cohort fires when its quorum is met, or when no member can add to it any more.
bool Firing::fires(const CohortState& cohort) noexcept {
    return !cohort.pending.empty() && (cohort.counting >= cohort.spec.quorum || cohort.able == 0);
}

void Firing::fire(CohortState& cohort, Effects& effects) {
    firing_.clear();
    std::swap(firing_, cohort.pending);
    cohort.counting = 0;
    for (const PendingPush& push : firing_) {
        s_.worker(push.ticket.id.worker).counted = 0;
    }
    apply(firing_, cohort.spec.quorum, effects);
    cohort.version = s_.history.version();
    if (s_.plan.late_rounds) {
        cohort.late.push_back(cohort.version);
        if (cohort.late.size() > static_cast<std::size_t>(*s_.plan.late_rounds) + 1) {
            cohort.late.erase(cohort.late.begin());
        }
    }
    if (s_.plan.others == SyncPlan::Others::kInterrupt) {
        interrupt_others(cohort, effects);
    }
    interrupt_laggards(effects);
}

/// 1. lag of each push, worth and weights of the update; 2. its version; 3. which workers go on
/// with it.
void Firing::apply(const std::vector<PendingPush>& pushes, int quorum, Effects& effects) {
    Fire update;
    update.work = pushes.front().ticket.work;
    update.pushes.reserve(pushes.size());
    for (const PendingPush& push : pushes) {
        const double lag = s_.history.lag(push.ticket.version);
        update.pushes.push_back({.ticket = push.ticket,
                                 .lag = lag,
                                 .lag_updates = s_.history.version() - push.ticket.version});
        update.samples += push.ticket.samples;
    }
    s_.pending -= static_cast<std::int64_t>(pushes.size());
    update.fraction = update_fraction(s_.plan, update.work, update.samples,
                                      s_.options.reference_batch, s_.noise_scale);
    update.lr_scale = s_.plan.lr_scale;
    update.version = s_.history.version() + 1;
    weigh(update, quorum);
    account(update);
    s_.history.append(s_.batches_of(update.samples), update.fraction);
    release_contributors(update);
    effects.emplace_back(std::move(update));
    if (s_.history.full()) {
        forget_versions();
    }
}

/// The plan's weights; what is over the bound weighs min(1, 1/(lag + its own reference batches)) of
/// that. Pushes of another work than the plan's are applied as they are.
void Firing::weigh(Fire& update, int quorum) {
    if (update.work != s_.plan.work) {
        return;
    }
    const FiringSet set{.version = update.version,
                        .reference_batch = s_.options.reference_batch,
                        .workers = s_.live_workers,
                        .quorum = quorum,
                        .reference_batches = s_.history.reference_batches(),
                        .fraction = update.fraction,
                        .pushes = &update.pushes};
    for (FiredPush& push : update.pushes) {
        if (s_.plan.weight) {
            push.weight = s_.plan.weight(push, set);
            check_invariant(std::isfinite(push.weight) && push.weight >= 0,
                            "weights are finite and not negative");
        }
        push.over_bound = s_.over_bound(push.lag);
        if (push.over_bound) {
            push.weight *= std::min(1.0, 1 / (push.lag + s_.batches_of(update.samples)));
        }
    }
}

void Firing::account(const Fire& update) {
    s_.accounts.outstanding -= update.samples;
    s_.accounts.applied += update.samples;
    for (const FiredPush& push : update.pushes) {
        s_.accounts.discounted += push.weight < 1 ? push.ticket.samples : 0;
        s_.accounts.over_bound += push.over_bound ? push.ticket.samples : 0;
    }
}

void Firing::release_contributors(Fire& update) {
    for (const FiredPush& push : update.pushes) {
        WorkerState& w = s_.worker(push.ticket.id.worker);
        if (w.live && w.incarnation == push.ticket.id.incarnation) {
            --w.pending;
            w.last_lag = s_.history.worth(push.ticket.version, update.version - 1);
        }
    }
    update.releases.reserve(update.pushes.size());
    for (const FiredPush& push : update.pushes) {
        WorkerState& w = s_.worker(push.ticket.id.worker);
        if (w.waiting && gate_.releasable(w)) {
            gate_.release(w);
            update.releases.push_back(
                {.worker = w.index, .lag = s_.plan.look_ahead ? w.last_lag : 0});
        }
        gate_.refresh(w);
    }
}

void Firing::interrupt_others(const CohortState& cohort, Effects& effects) {
    for (const int member : cohort.spec.members) {
        WorkerState& w = s_.worker(member);
        if (w.computing() && w.version < s_.history.version()) {
            gate_.interrupt(w, effects);
        }
    }
}

void Firing::interrupt_laggards(Effects& effects) {
    if (!s_.plan.lag_rule || s_.plan.lag_rule->action != SyncPlan::LagAction::kRefresh) {
        return;
    }
    for (WorkerState& w : s_.workers) {
        if (w.computing() && w.setbacks < kSetbacks && s_.over_bound(s_.history.lag(w.version))) {
            w.setbacks += w.leases.empty() ? 0 : 1;
            gate_.interrupt(w, effects);
        }
    }
}

void Firing::forget_versions() {
    std::int64_t oldest = s_.history.version();
    for (const WorkerState& w : s_.workers) {
        oldest = w.live ? std::min(oldest, w.version) : oldest;
    }
    for (const CohortState& cohort : s_.cohorts) {
        for (const PendingPush& push : cohort.pending) {
            oldest = std::min(oldest, push.ticket.version);
        }
    }
    s_.history.forget_before(oldest);
}

}  // namespace cohort
