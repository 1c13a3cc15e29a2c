#include "cohort/sched/update_engine.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/engine/engine_state.hpp"

namespace cohort {

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
    for (const WorkerState& w : impl_->state.workers) {
        alive.push_back(w.live);
    }
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
