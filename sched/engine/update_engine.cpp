#include "cohort/sched/update_engine.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/engine/engine_state.hpp"

namespace cohort {

UpdateEngine::Impl::Impl(const EngineOptions& engine_options, SyncPlan first_plan)
    : state(engine_options, std::move(first_plan)) {
    pushes.place_workers();
}

/// 1. A push whose lease was taken back, or whose incarnation is over, is refused.
/// 2. The lease is used up.
/// 3. The plan's tests: refused, the worker starts again; accepted, the push waits for its cohort.
/// 4. Cohorts that can fire do; workers that nothing holds back continue.
void UpdateEngine::Impl::push(const PushTicket& ticket, Effects& effects) {
    WorkerState& w = state.worker(ticket.id.worker);
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
    check_invariant(ticket.version >= w.version && ticket.version <= state.history.version(),
                    "a push was computed on the parameters its worker was released with");
    gate.wait(w);
    w.last_lag = state.history.worth(ticket.version, state.history.version());
    if (const std::optional<ReturnReason> reason = judge(w, ticket)) {
        effects.emplace_back(
            Refuse{.push = ticket.id, .reason = *reason, .lag = state.history.lag(ticket.version)});
        gate.give_back(w, *lease, *reason, effects);
    } else {
        accept(w, ticket, effects);
    }
    settle(&w, effects);
}

std::optional<OpenLease> UpdateEngine::Impl::take_lease(WorkerState& w, std::uint64_t id) {
    const auto found = std::ranges::find(w.leases, id, &OpenLease::id);
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
    if (ticket.work != state.plan.work) {
        return {};  // in flight when the plan changed: an update of its own
    }
    if (too_late(w, ticket.version)) {
        return ReturnReason::kDropped;
    }
    const bool lags = state.over_bound(state.history.lag(ticket.version)) &&
                      state.plan.lag_rule->action != SyncPlan::LagAction::kDiscount;
    if (lags && w.setbacks < kSetbacks) {
        ++w.setbacks;
        return ReturnReason::kDropped;
    }
    if (state.plan.accept && !state.plan.accept(ticket)) {
        return ReturnReason::kDropped;
    }
    return {};
}

/// A rider's push is never late: no round waits for it.
bool UpdateEngine::Impl::too_late(const WorkerState& w, std::int64_t version) const {
    const CohortState& cohort = state.cohorts[w.cohort];
    if (w.rider || version >= cohort.version) {
        return false;
    }
    if (state.plan.late == SyncPlan::Late::kDrop) {
        return true;
    }
    const auto missed = cohort.late.end() - std::ranges::upper_bound(cohort.late, version);
    return state.plan.late_rounds && missed > *state.plan.late_rounds;
}

void UpdateEngine::Impl::accept(WorkerState& w, const PushTicket& ticket, Effects& effects) {
    ++w.clock;
    w.setbacks = 0;
    ++w.pending;
    ++state.pending;
    const PendingPush push{.ticket = ticket, .arrival = w.waiting_since};
    const CohortState& cohort = state.cohorts[w.cohort];
    const bool late = ticket.version < cohort.version;
    const bool alone = late && !w.rider && state.plan.late == SyncPlan::Late::kAlone;
    if (ticket.work != state.plan.work || alone) {
        firing.apply({push}, 1, effects);
        firing.interrupt_laggards(effects);
        return;
    }
    pushes.add(w, push, !cohort.spec.fresh_only || !late);
}

/// A fence that nothing is lost at.
/// 1. Pushes that the new plan's cannot be mixed with are applied under the old plan.
/// 2. The other pending pushes move to their workers' new cohorts, where they count whatever their
///    version; so do those that are computed now, until the cohort fires.
/// 3. Clocks start again.
/// 4. Cohorts that now meet their quorum fire; workers that nothing holds back any more are
///    released, those over the new bound interrupted.
void UpdateEngine::Impl::install(SyncPlan next, Effects& effects) {
    state.plan.look_ahead =
        next.look_ahead;  // workers released from now on work under the new plan
    fire_foreign(next.work, effects);
    std::vector<PendingPush> carried_over = pushes.all();
    state.plan = std::move(next);
    pushes.place_workers();
    pushes.rehome(std::move(carried_over));
    for (WorkerState& w : state.workers) {
        w.clock = 0;
    }
    firing.interrupt_laggards(effects);
    settle(nullptr, effects);
}

void UpdateEngine::Impl::fire_foreign(Work work, Effects& effects) {
    if (work == state.plan.work) {
        return;
    }
    for (CohortState& cohort : state.cohorts) {  // one work per plan: all or nothing
        if (!cohort.pending.empty()) {
            firing.fire(cohort, effects);
        }
    }
}

void UpdateEngine::Impl::settle(WorkerState* w, Effects& effects) {
    const bool anybody = w == nullptr || state.plan.clock_bound.has_value();
    if (anybody) {
        gate.refresh_all();
    } else {
        gate.refresh(*w);
    }
    while (!state.touched.empty()) {  // a fire may touch more
        CohortState& cohort = state.cohorts[state.touched.front()];
        state.touched.pop_front();
        cohort.touched = false;
        if (Firing::fires(cohort)) {
            firing.fire(cohort, effects);
        }
    }
    if (anybody) {
        gate.refresh_all();  // an interrupted worker may be idle: another may be the slowest
        gate.release_ready(effects);
    } else if (w->waiting && gate.releasable(*w)) {
        gate.release_one(*w, effects);
    }
}

const ReturnLease* lease_given_up(const std::vector<Effect>& effects,
                                  std::size_t interrupt) noexcept {
    const auto* stopped = std::get_if<Interrupt>(&effects[interrupt]);
    if (stopped == nullptr || interrupt + 1 == effects.size()) {
        return nullptr;
    }
    const auto* lease = std::get_if<ReturnLease>(&effects[interrupt + 1]);
    const bool its_own = lease != nullptr && lease->worker == stopped->worker &&
                         lease->reason == ReturnReason::kInterrupted;
    return its_own ? lease : nullptr;
}

UpdateEngine::UpdateEngine(const EngineOptions& options, SyncPlan plan) {
    check_plan(plan, options.workers);
    check_invariant(options.reference_batch > 0, "a reference batch has samples");
    impl_ = std::make_unique<Impl>(options, std::move(plan));
}

UpdateEngine::~UpdateEngine() = default;
UpdateEngine::UpdateEngine(UpdateEngine&&) noexcept = default;
UpdateEngine& UpdateEngine::operator=(UpdateEngine&&) noexcept = default;

void UpdateEngine::leased(int worker, std::uint64_t lease, std::int64_t samples) {
    WorkerState& w = impl_->state.worker(worker);
    check_invariant(w.live, "leases go to live workers");
    check_invariant(samples > 0, "a lease has samples");
    impl_->gate.wake(w);
    w.leases.push_back({.id = lease, .samples = samples});
    impl_->state.accounts.leased += samples;
    impl_->state.accounts.outstanding += samples;
    impl_->gate.refresh(w);
}

std::vector<Effect> UpdateEngine::push(const PushTicket& ticket) {
    std::vector<Effect> effects;
    impl_->push(ticket, effects);
    return effects;
}

void UpdateEngine::push(const PushTicket& ticket, std::vector<Effect>& effects) {
    impl_->push(ticket, effects);
}

std::vector<Effect> UpdateEngine::idle(int worker) {
    std::vector<Effect> effects;
    WorkerState& w = impl_->state.worker(worker);
    if (w.live) {
        w.told_idle = true;
        impl_->settle(&w, effects);
    }
    return effects;
}

std::vector<Effect> UpdateEngine::resumed(int worker) {
    std::vector<Effect> effects;
    WorkerState& w = impl_->state.worker(worker);
    if (w.live && w.told_idle) {
        impl_->gate.wake(w);
        impl_->settle(&w, effects);
    }
    return effects;
}

std::vector<Effect> UpdateEngine::lost(int worker, const std::vector<PushId>& gone) {
    std::vector<Effect> effects;
    WorkerState& w = impl_->state.worker(worker);
    if (w.live) {
        impl_->gate.give_back_all(w, ReturnReason::kLost, effects);
        w.live = false;
        w.waiting = false;
        w.pending = 0;
        --impl_->state.live_workers;
        impl_->pushes.withdraw(gone, effects);
        impl_->settle(&w, effects);
    }
    return effects;
}

std::vector<Effect> UpdateEngine::joined(int worker) {
    std::vector<Effect> effects;
    WorkerState& w = impl_->state.worker(worker);
    check_invariant(!w.live, "who joins was lost");
    w.live = true;
    ++w.incarnation;
    ++impl_->state.live_workers;
    w.told_idle = true;
    w.last_lag = 0;
    w.setbacks = 0;
    w.clock = 0;
    impl_->gate.release_one(w, effects);
    impl_->gate.refresh(w);
    return effects;
}

std::vector<Effect> UpdateEngine::install(SyncPlan plan) {
    std::vector<bool> alive;
    std::ranges::transform(impl_->state.workers, std::back_inserter(alive), &WorkerState::live);
    check_plan(plan, impl_->state.options.workers, alive);
    std::vector<Effect> effects;
    impl_->install(std::move(plan), effects);
    return effects;
}

std::vector<Effect> UpdateEngine::take_back(int worker, ReturnReason reason, bool begun) {
    std::vector<Effect> effects;
    WorkerState& w = impl_->state.worker(worker);
    std::vector<OpenLease> kept;
    if (!begun && !w.waiting && !w.leases.empty()) {
        kept.push_back(w.leases.front());
        w.leases.erase(w.leases.begin());
    }
    impl_->gate.give_back_all(w, reason, effects);
    w.leases = std::move(kept);
    impl_->settle(&w, effects);
    return effects;
}

void UpdateEngine::set_noise_scale(double phi) {
    check_invariant(phi >= 0, "a noise scale is not negative");
    impl_->state.noise_scale = phi;
}

std::vector<Effect> UpdateEngine::stop() {
    std::vector<Effect> effects;
    impl_->pushes.drop_all(effects);
    for (WorkerState& w : impl_->state.workers) {
        impl_->gate.give_back_all(w, ReturnReason::kStop, effects);
        w.told_idle = true;
    }
    impl_->gate.refresh_all();
    return effects;
}

std::int64_t UpdateEngine::version() const noexcept {
    return impl_->state.history.version();
}

double UpdateEngine::reference_batches() const noexcept {
    return impl_->state.history.reference_batches();
}

double UpdateEngine::lag_of(std::int64_t version) const noexcept {
    const VersionHistory& history = impl_->state.history;
    return history.lag(std::clamp(version, history.oldest(), history.version()));
}

const SyncPlan& UpdateEngine::plan() const noexcept {
    return impl_->state.plan;
}

bool UpdateEngine::live(int worker) const {
    return impl_->state.worker(worker).live;
}

std::uint32_t UpdateEngine::incarnation(int worker) const {
    return impl_->state.worker(worker).incarnation;
}

bool UpdateEngine::needs_short_lease(int worker) const {
    return impl_->state.plan.lag_rule && impl_->state.worker(worker).setbacks >= kSetbacks;
}

EngineAccounts UpdateEngine::accounts() const noexcept {
    return impl_->state.accounts;
}

std::int64_t UpdateEngine::pending() const noexcept {
    return impl_->state.pending;
}

std::vector<int> UpdateEngine::awaited() const {
    std::vector<int> missing;
    for (const WorkerState& w : impl_->state.workers) {
        if (w.able && !impl_->state.cohorts[w.cohort].pending.empty()) {
            missing.push_back(w.index);
        }
    }
    return missing;
}

}  // namespace cohort
