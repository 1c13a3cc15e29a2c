#include "support/sched/random_run.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace cohort::test {

void RandomRun::step() {
    const int worker = dice_.below(static_cast<int>(states_.size()));
    const int kind = dice_.below(1000);
    if (kind < 4) {
        lose_or_join(worker);
    } else if (kind < 6) {
        install_another();
    } else if (kind < 20) {
        idle_or_resume(worker);
    } else if (kind < 22) {
        carry_out(engine_.take_back(worker, ReturnReason::kVoidRound));
    } else if (kind < 24) {
        engine_.set_noise_scale(0.5 * dice_.below(100));
    } else if (kind < 26) {
        state(worker).seconds = 0.2 * (1 + dice_.below(20));
    } else if (kind < 45 && !stale_.empty()) {
        push_stale();
    } else {
        push(worker);
    }
    ask_policy();
    provide();
    check();
}

void RandomRun::finish() {
    carry_out(engine_.stop());
    EXPECT_EQ(engine_.accounts().outstanding, 0);
    EXPECT_EQ(engine_.pending(), 0);
    EXPECT_TRUE(open_.empty());
}

std::vector<bool> RandomRun::live() const {
    std::vector<bool> live;
    live.reserve(states_.size());
    for (const State& s : states_) {
        live.push_back(s.live);
    }
    return live;
}

/// Somebody is live.
SyncPlan RandomRun::next_plan() {
    const int workers = static_cast<int>(states_.size());
    if (plans_ == Plans::kPlans) {
        return random_plan(dice_, workers, live());
    }
    using Unit = SyncPlan::LrUnit;
    const bool ring = dice_.one_in(6);
    const std::string mode =
        !ring ? random_mode(dice_, workers) : fmt::format("ring:{}", 1 + dice_.below(workers));
    policy_ = make_policy(
        mode, {.architecture = ring ? Architecture::kRing : Architecture::kServers,
               .live = live(),
               .batch = kBatch,
               .lr_rule = dice_.pick({Unit::kPerSample, Unit::kPublished, Unit::kAdaScale}),
               .own_seconds = {}});
    return *policy_->start().plan;
}

void RandomRun::note_plan() {
    for (State& s : states_) {
        s.placed = false;
    }
    free_ = !plan_.clock_bound;
    fresh_ = plan_.cohorts.size() == 1 && plan_.late == SyncPlan::Late::kDrop;
    for (const CohortSpec& cohort : plan_.cohorts) {
        free_ = free_ && cohort.members.size() == 1 && cohort.quorum == 1 && cohort.riders.empty();
        fresh_ = fresh_ && cohort.riders.empty();
        for (const int member : cohort.members) {
            state(member).placed = true;
        }
    }
    carried_over_ = pending_;
    fired_.reset();
}

void RandomRun::install(SyncPlan plan) {
    plan_ = std::move(plan);
    note_plan();
    carry_out(engine_.install(plan_));
}

void RandomRun::install_another() {
    if (std::any_of(states_.begin(), states_.end(), [](const State& s) { return s.live; })) {
        install(next_plan());
    }
}

void RandomRun::ask_policy() {
    if (!policy_) {
        return;
    }
    telemetry_.workers.resize(states_.size());
    telemetry_.samples_applied = applied_;
    telemetry_.budget_samples = applied_ + 1000;
    telemetry_.updates = version_;
    for (std::size_t i = 0; i < states_.size(); ++i) {
        telemetry_.workers[i].live = states_[i].live;
        telemetry_.workers[i].own_s = states_[i].accepted > 0 ? states_[i].seconds : 0;
        telemetry_.workers[i].last_own_s = telemetry_.workers[i].own_s;
        telemetry_.workers[i].pushes = states_[i].accepted;
    }
    Decision decision = policy_->decide(telemetry_);
    if (decision.plan) {
        ++decisions_;
        install(*std::move(decision.plan));
    }
}

void RandomRun::lease(int worker) {
    const std::uint64_t id = ++next_lease_;
    state(worker).leases.push_back(id);
    open_.insert(id);
    const std::int64_t samples = 4 + static_cast<std::int64_t>(id % 5);
    engine_.leased(worker, id, samples);
    leased_ += samples;
}

PushTicket RandomRun::ticket(int worker) {
    State& s = state(worker);
    PushTicket ticket;
    ticket.id = {worker, engine_.incarnation(worker), ++s.sequence};
    ticket.lease = s.leases.front();
    ticket.samples = 4 + static_cast<std::int64_t>(ticket.lease % 5);
    ticket.version = s.version;
    ticket.finite = !dice_.one_in(200);
    ticket.gradient_norm = 0.01 * dice_.below(100);
    ticket.reference_norm = 0.01 * dice_.below(100);
    ticket.reference_dot = 0.01 * (dice_.below(150) - 50) * ticket.gradient_norm;
    ticket.work = s.work;
    return ticket;
}

/// Sends a push, which may arrive later, or lets one arrive.
void RandomRun::push(int worker) {
    State& s = state(worker);
    if (!s.live || s.waiting || s.leases.empty()) {
        return;
    }
    const bool arrives = s.on_its_way.has_value();
    const PushTicket sent = arrives ? *s.on_its_way : ticket(worker);
    if (!arrives && dice_.one_in(3)) {
        s.on_its_way = sent;
        return;
    }
    s.on_its_way.reset();
    if (dice_.one_in(50)) {
        stale_.push_back(sent);  // arrives once more, when its lease is long gone
    }
    deliver(sent);
}

void RandomRun::deliver(const PushTicket& sent) {
    State& s = state(sent.id.worker);
    ASSERT_EQ(s.leases.front(), sent.lease);
    s.leases.pop_front();
    pending_.insert(sent.lease);
    s.waiting = true;
    s.pushed_version = sent.version;
    ++s.pending;
    ++pushes_;
    ++s.accepted;
    const std::vector<Effect> effects = engine_.push(sent);
    const bool refused = !effects.empty() && std::holds_alternative<Refuse>(effects.front());
    carry_out(effects);
    s.setbacks = refused ? s.setbacks : 0;
}

void RandomRun::push_stale() {
    const PushTicket again = stale_.front();
    stale_.pop_front();
    if (open_.contains(again.lease) && !pending_.contains(again.lease) &&
        engine_.incarnation(again.id.worker) == again.id.incarnation) {
        return;  // not pushed yet
    }
    const std::vector<Effect> effects = engine_.push(again);
    ASSERT_EQ(effects.size(), 1u);
    ASSERT_TRUE(std::holds_alternative<Refuse>(effects[0]));
}

void RandomRun::lose_or_join(int worker) {
    State& s = state(worker);
    if (s.live) {
        s.live = false;
        carry_out(engine_.lost(worker));
        EXPECT_TRUE(s.leases.empty());
        s.waiting = false;
    } else {
        s.live = true;
        s.idle = false;
        s.waiting = true;
        s.pending = 0;
        s.setbacks = 0;
        s.pushed_version = 0;
        carry_out(engine_.joined(worker));
        EXPECT_FALSE(s.waiting) << "who joins starts at once";
        lease(worker);
    }
}

void RandomRun::idle_or_resume(int worker) {
    State& s = state(worker);
    if (s.live) {
        s.idle = !s.idle;
        carry_out(s.idle ? engine_.idle(worker) : engine_.resumed(worker));
    }
}

/// Who computes and is not idle has a lease; some have two.
void RandomRun::provide() {
    for (int worker = 0; worker < static_cast<int>(states_.size()); ++worker) {
        State& s = state(worker);
        if (s.live && !s.idle && s.leases.size() < (dice_.one_in(8) ? 2u : 1u)) {
            lease(worker);
        }
    }
}

void RandomRun::start(int worker, std::int64_t version) {
    State& s = state(worker);
    ASSERT_TRUE(s.live) << "the dead are not released";
    ASSERT_EQ(version, version_) << "released with the newest version";
    ASSERT_GE(version, s.pushed_version) << "never older than the push it answers";
    const bool on_fire = plan_.release == SyncPlan::Release::kOnFire;
    ASSERT_TRUE(!s.waiting || s.pending < (on_fire ? 1 : plan_.window)) << "beyond the window";
    s.waiting = false;
    s.version = version;
    s.work = plan_.work;
}

void RandomRun::applied(const Fire& fire) {
    ASSERT_EQ(fire.version, ++version_) << "versions count updates";
    ASSERT_FALSE(fire.pushes.empty());
    ASSERT_GT(fire.fraction, 0);
    for (const FiredPush& push : fire.pushes) {
        ASSERT_EQ(open_.erase(push.ticket.lease), 1u) << "applied twice, or after it came back";
        ASSERT_EQ(pending_.erase(push.ticket.lease), 1u);
        check_push(fire, push);
        applied_ += push.ticket.samples;
        State& s = state(push.ticket.id.worker);
        if (s.live && push.ticket.id.incarnation == engine_.incarnation(push.ticket.id.worker)) {
            --s.pending;
        }
    }
    if (fire.work == plan_.work) {
        fired_ = fire.version;
    }
    const auto reference_batch = static_cast<double>(kBatch) * static_cast<double>(states_.size());
    batches_.push_back(batches_.back() + static_cast<double>(fire.samples) / reference_batch);
    for (const Fire::Release& release : fire.releases) {
        ASSERT_TRUE(state(release.worker).waiting) << "released once";
        ASSERT_TRUE(plan_.look_ahead || release.lag == 0);
        start(release.worker, fire.version);
    }
}

void RandomRun::check_push(const Fire& fire, const FiredPush& push) {
    const PushTicket& ticket = push.ticket;
    ASSERT_EQ(ticket.work, fire.work);
    ASSERT_TRUE(ticket.finite);
    ASSERT_NEAR(push.lag, batches_.back() - batches_[static_cast<std::size_t>(ticket.version)],
                1e-9);
    ASSERT_EQ(push.lag_updates, version_ - 1 - ticket.version);
    const State& s = state(ticket.id.worker);
    const bool foreign = fire.work != plan_.work;
    const bool carried_over = carried_over_.contains(ticket.lease);
    if (foreign && !carried_over) {
        ASSERT_EQ(push.weight, 1) << "no plan's weights for another work";
    }
    if (plans_ == Plans::kPlans || foreign || carried_over || !s.placed) {
        return;
    }
    if (fresh_ && fired_) {
        ASSERT_GE(ticket.version, *fired_) << "late";
    }
    using Action = SyncPlan::LagAction;
    if (plan_.lag_rule && push.lag > plan_.lag_rule->bound + 1e-9) {
        ASSERT_TRUE(push.over_bound);
        ASSERT_LE(push.weight, 1);
        ASSERT_TRUE(plan_.lag_rule->action == Action::kDiscount || s.setbacks >= 2)
            << "over the bound and not admitted by the rule of progress";
        ++admitted_;
    } else {
        ASSERT_FALSE(push.over_bound);
    }
}

void RandomRun::returned(const ReturnLease& back) {
    ASSERT_EQ(open_.erase(back.lease), 1u) << "returned twice, or applied before";
    State& s = state(back.worker);
    pending_.erase(back.lease);
    std::erase(s.leases, back.lease);
    returned_ += back.samples;
    if (s.on_its_way && s.on_its_way->lease == back.lease) {
        stale_.push_back(*s.on_its_way);
        s.on_its_way.reset();
    }
    const bool for_lag =
        back.reason == ReturnReason::kInterrupted || back.reason == ReturnReason::kDropped;
    s.setbacks += plan_.lag_rule && for_lag ? 1 : 0;
}

void RandomRun::carry_out(const std::vector<Effect>& effects) {
    for (const Effect& effect : effects) {
        if (const auto* fire = std::get_if<Fire>(&effect)) {
            applied(*fire);
        } else if (const auto* one = std::get_if<ReleaseOne>(&effect)) {
            start(one->worker, one->version);
        } else if (const auto* interrupt = std::get_if<Interrupt>(&effect)) {
            ASSERT_FALSE(state(interrupt->worker).waiting) << "only who computes is interrupted";
            start(interrupt->worker, interrupt->version);
        } else if (const auto* back = std::get_if<ReturnLease>(&effect)) {
            returned(*back);
        } else if (const auto* refuse = std::get_if<Refuse>(&effect)) {
            --state(refuse->push.worker).pending;
        }
    }
}

void RandomRun::check() {
    const EngineAccounts accounts = engine_.accounts();
    std::int64_t returned = 0;
    for (const std::int64_t samples : accounts.returned) {
        returned += samples;
    }
    ASSERT_EQ(accounts.leased, leased_);
    ASSERT_EQ(accounts.applied, applied_);
    ASSERT_EQ(returned, returned_);
    ASSERT_EQ(accounts.leased, accounts.applied + returned + accounts.outstanding);
    ASSERT_EQ(engine_.version(), version_);
    const std::vector<int> awaited = engine_.awaited();
    ASSERT_EQ(engine_.pending() > 0, !awaited.empty()) << "pending pushes wait for somebody";
    ASSERT_EQ(engine_.pending(), static_cast<std::int64_t>(pending_.size()));
    for (const int worker : awaited) {
        ASSERT_TRUE(state(worker).live && !state(worker).waiting) << "who can still push";
    }
    check_workers();
}

void RandomRun::check_workers() {
    bool held = false;
    bool computing = false;
    for (std::size_t i = 0; i < states_.size(); ++i) {
        const State& s = states_[i];
        held = held || (s.live && s.waiting && (!s.idle || !s.leases.empty()));
        computing = computing || (s.live && !s.waiting && !s.leases.empty());
        const bool unbound = s.waiting && s.pending == 0 && !plan_.clock_bound;
        ASSERT_FALSE(s.live && unbound) << "lost wake-up";
        ASSERT_FALSE(free_ && s.live && s.placed && s.waiting) << "this plan makes nobody wait";
        if (plans_ == Plans::kModes) {
            ASSERT_EQ(engine_.needs_short_lease(static_cast<int>(i)),
                      plan_.lag_rule && s.setbacks >= 2);
        }
    }
    ASSERT_TRUE(computing || !held) << "deadlock";
}

}  // namespace cohort::test
