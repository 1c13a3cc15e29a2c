// Random plans, arrivals, losses, joins, idle times and installs, against a model that knows only
// what executors know: the effects. With an argument, that many thousand events:
//   sched_engine_random_test 20000
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <optional>
#include <set>

#include "support/engine_script.hpp"

namespace cohort {
namespace {

int thousand_events = 1500;

/// Uniform choices from one seed.
class Dice {
public:
    explicit Dice(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {  // splitmix64
        state_ += 0x9e3779b97f4a7c15ULL;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }
    int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
    bool one_in(int n) { return below(n) == 0; }
    template <class T>
    T pick(std::initializer_list<T> values) {
        return values.begin()[below(static_cast<int>(values.size()))];
    }

private:
    std::uint64_t state_;
};

std::vector<CohortSpec> random_cohorts(Dice& dice, int workers, const std::vector<bool>& live) {
    std::vector<int> order;
    for (int worker = 0; worker < workers; ++worker) {
        if (live[static_cast<std::size_t>(worker)] || dice.one_in(2)) {
            order.insert(order.begin() + dice.below(static_cast<int>(order.size()) + 1), worker);
        }
    }
    std::vector<CohortSpec> cohorts;
    for (const int worker : order) {
        if (cohorts.empty() || dice.one_in(4)) {
            cohorts.push_back({.members = {worker}, .riders = {}});
        } else if (dice.one_in(5)) {
            cohorts.back().riders.push_back(worker);
        } else {
            cohorts.back().members.push_back(worker);
        }
    }
    for (CohortSpec& cohort : cohorts) {
        cohort.count = dice.pick({CohortSpec::Count::kWorkers, CohortSpec::Count::kPushes});
        const int members = static_cast<int>(cohort.members.size());
        const bool pushes = cohort.count == CohortSpec::Count::kPushes;
        cohort.quorum = 1 + dice.below(pushes ? 2 * members : members);
        cohort.fresh_only = dice.one_in(3);
    }
    return cohorts;
}

SyncPlan random_plan(Dice& dice, int workers, const std::vector<bool>& live) {
    SyncPlan plan;
    plan.name = "random";
    plan.cohorts = random_cohorts(dice, workers, live);
    plan.late = dice.one_in(4) ? SyncPlan::Late::kDrop : SyncPlan::Late::kMerge;
    plan.late_rounds = dice.one_in(4) ? std::optional<int>(dice.below(3)) : std::nullopt;
    plan.others = dice.one_in(4) ? SyncPlan::Others::kInterrupt : SyncPlan::Others::kContinue;
    if (dice.one_in(3)) {
        plan.release = SyncPlan::Release::kOnArrival;
        plan.window = 1 + dice.below(4);
    }
    if (dice.one_in(3)) {
        using Action = SyncPlan::LagAction;
        plan.lag_rule = {.bound = 0.25 * dice.below(9),
                         .action = dice.pick({Action::kRefresh, Action::kDrop, Action::kDiscount})};
    }
    if (dice.one_in(3)) {
        plan.clock_bound = dice.below(4);
    }
    if (dice.one_in(3)) {
        plan.weight = [](const FiredPush& push, const FiringSet& set) {
            EXPECT_GT(set.workers, -1);
            return 1.0 / static_cast<double>(push.lag_updates + 1);
        };
    }
    if (dice.one_in(5)) {
        plan.accept = [](const PushTicket& ticket) { return ticket.gradient_norm < 0.8; };
    }
    plan.work = dice.one_in(4) ? Work::kDelta : Work::kGradient;
    plan.look_ahead = dice.one_in(2);
    if (dice.one_in(4)) {
        plan.lr_unit = SyncPlan::LrUnit::kPublished;
        plan.published_unit = 8;
    }
    return plan;
}

/// One engine, its workers, and what must always hold.
class RandomRun {
public:
    RandomRun(std::uint64_t seed, int workers)
        : dice_(seed),
          states_(static_cast<std::size_t>(workers)),
          plan_(random_plan(dice_, workers, std::vector<bool>(states_.size(), true))),
          engine_({.workers = workers, .reference_batch = 8 * workers}, plan_) {
        for (int worker = 0; worker < workers; ++worker) {
            lease(worker);
        }
    }

    void step() {
        const int worker = dice_.below(static_cast<int>(states_.size()));
        const int kind = dice_.below(1000);
        if (kind < 4) {
            lose_or_join(worker);
        } else if (kind < 6) {
            install();
        } else if (kind < 20) {
            idle_or_resume(worker);
        } else if (kind < 22) {
            carry_out(engine_.take_back(worker, ReturnReason::kVoidRound));
        } else if (kind < 40 && !stale_.empty()) {
            push_stale();
        } else {
            push(worker);
        }
        provide();
        check();
    }

    void finish() {
        carry_out(engine_.stop());
        const EngineAccounts accounts = engine_.accounts();
        EXPECT_EQ(accounts.outstanding, 0);
        EXPECT_EQ(engine_.pending(), 0);
        EXPECT_TRUE(open_.empty());
    }

    [[nodiscard]] std::int64_t pushes() const { return pushes_; }

private:
    struct State {
        std::deque<std::uint64_t> leases;
        bool live = true;
        bool idle = false;     ///< was told so
        bool waiting = false;  ///< has pushed and was not released
        Work work = Work::kGradient;
        std::int64_t version = 0;
        std::int64_t pushed_version = 0;  ///< of the last push
        std::uint64_t sequence = 0;
        int pending = 0;
    };

    State& state(int worker) { return states_[static_cast<std::size_t>(worker)]; }

    void lease(int worker) {
        const std::uint64_t id = ++next_lease_;
        state(worker).leases.push_back(id);
        open_.insert(id);
        engine_.leased(worker, id, 4 + static_cast<std::int64_t>(id % 5));
        leased_ += 4 + static_cast<std::int64_t>(id % 5);
    }

    PushTicket ticket(int worker) {
        State& s = state(worker);
        PushTicket ticket;
        ticket.id = {worker, engine_.incarnation(worker), ++s.sequence};
        ticket.lease = s.leases.front();
        ticket.samples = 4 + static_cast<std::int64_t>(ticket.lease % 5);
        ticket.version = s.version;
        ticket.finite = !dice_.one_in(200);
        ticket.gradient_norm = 0.01 * dice_.below(100);
        ticket.work = s.work;
        return ticket;
    }

    void push(int worker) {
        State& s = state(worker);
        if (!s.live || s.waiting || s.leases.empty()) {
            return;
        }
        const PushTicket sent = ticket(worker);
        if (dice_.one_in(50)) {
            stale_.push_back(sent);  // arrives once more, when its lease is long gone
        }
        s.leases.pop_front();
        s.waiting = true;
        s.pushed_version = sent.version;
        s.work = engine_.plan().work;
        ++s.pending;
        ++pushes_;
        carry_out(engine_.push(sent));
    }

    void push_stale() {
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

    void lose_or_join(int worker) {
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
            s.pushed_version = 0;
            carry_out(engine_.joined(worker));
            EXPECT_FALSE(s.waiting) << "who joins starts at once";
            lease(worker);
        }
    }

    void idle_or_resume(int worker) {
        State& s = state(worker);
        if (!s.live) {
            return;
        }
        s.idle = !s.idle;
        carry_out(s.idle ? engine_.idle(worker) : engine_.resumed(worker));
    }

    void install() {
        std::vector<bool> live;
        for (const State& s : states_) {
            live.push_back(s.live);
        }
        if (std::find(live.begin(), live.end(), true) == live.end()) {
            return;
        }
        plan_ = random_plan(dice_, static_cast<int>(states_.size()), live);
        carry_out(engine_.install(plan_));
    }

    /// Who computes and is not idle has a lease; some have two.
    void provide() {
        for (int worker = 0; worker < static_cast<int>(states_.size()); ++worker) {
            State& s = state(worker);
            if (s.live && !s.idle && s.leases.size() < (dice_.one_in(8) ? 2u : 1u)) {
                lease(worker);
            }
        }
    }

    void carry_out(const std::vector<Effect>& effects);
    void applied(const Fire& fire);
    void start(int worker, std::int64_t version);
    void check();

    Dice dice_;
    std::vector<State> states_;
    SyncPlan plan_;
    UpdateEngine engine_;
    std::deque<PushTicket> stale_;
    std::set<std::uint64_t> open_;     ///< leases that were neither applied nor returned
    std::set<std::uint64_t> pending_;  ///< of those: pushed
    std::uint64_t next_lease_ = 0;
    std::int64_t leased_ = 0;
    std::int64_t applied_ = 0;
    std::int64_t returned_ = 0;
    std::int64_t version_ = 0;
    std::int64_t pushes_ = 0;
    std::vector<double> batches_ = {0};  ///< reference batches applied, by version
};

void RandomRun::start(int worker, std::int64_t version) {
    State& s = state(worker);
    ASSERT_TRUE(s.live) << "the dead are not released";
    ASSERT_EQ(version, version_) << "released with the newest version";
    ASSERT_GE(version, s.pushed_version) << "never older than the push it answers";
    const bool on_fire = plan_.release == SyncPlan::Release::kOnFire;
    ASSERT_TRUE(!s.waiting || s.pending < (on_fire ? 1 : plan_.window)) << "beyond the window";
    s.waiting = false;
    s.version = version;
}

void RandomRun::applied(const Fire& fire) {
    ASSERT_EQ(fire.version, ++version_) << "versions count updates";
    ASSERT_FALSE(fire.pushes.empty());
    ASSERT_GT(fire.fraction, 0);
    for (const FiredPush& push : fire.pushes) {
        ASSERT_EQ(open_.erase(push.ticket.lease), 1u) << "applied twice, or after it came back";
        ASSERT_EQ(push.ticket.work, fire.work);
        const auto computed_on = static_cast<std::size_t>(push.ticket.version);
        ASSERT_NEAR(push.lag, batches_.back() - batches_[computed_on], 1e-9);
        ASSERT_EQ(push.lag_updates, version_ - 1 - push.ticket.version);
        applied_ += push.ticket.samples;
        State& s = state(push.ticket.id.worker);
        if (s.live && push.ticket.id.incarnation == engine_.incarnation(push.ticket.id.worker)) {
            --s.pending;
        }
    }
    const auto reference_batch = 8.0 * static_cast<double>(states_.size());
    batches_.push_back(batches_.back() + static_cast<double>(fire.samples) / reference_batch);
    for (const Fire::Release& release : fire.releases) {
        ASSERT_TRUE(state(release.worker).waiting) << "released once";
        start(release.worker, fire.version);
    }
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
            ASSERT_EQ(open_.erase(back->lease), 1u) << "returned twice, or applied before";
            std::erase(state(back->worker).leases, back->lease);
            returned_ += back->samples;
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
    for (const int worker : awaited) {
        ASSERT_TRUE(state(worker).live && !state(worker).waiting) << "who can still push";
    }
    bool held = false;
    bool computing = false;
    for (const State& s : states_) {
        held = held || (s.live && s.waiting && (!s.idle || !s.leases.empty()));
        computing = computing || (s.live && !s.waiting && !s.leases.empty());
        const bool free = s.waiting && s.pending == 0 && !plan_.clock_bound;
        ASSERT_FALSE(s.live && free) << "lost wake-up";
    }
    ASSERT_TRUE(computing || !held) << "deadlock";
}

TEST(RandomSchedules, NothingIsLostNobodyHangs) {
    const std::int64_t events = 1000LL * thousand_events;
    constexpr std::int64_t kPerRun = 5000;
    std::int64_t pushes = 0;
    for (std::int64_t run = 0; run < events / kPerRun; ++run) {
        const int workers = 1 + static_cast<int>(run % 9);
        RandomRun schedule(static_cast<std::uint64_t>(run), workers);
        for (std::int64_t i = 0; i < kPerRun; ++i) {
            schedule.step();
            if (testing::Test::HasFailure()) {
                FAIL() << "run " << run << ", event " << i;
            }
        }
        schedule.finish();
        pushes += schedule.pushes();
    }
    EXPECT_GT(pushes, events / 4) << "the schedules say little";
}

}  // namespace
}  // namespace cohort

int main(int count, char** arguments) {
    testing::InitGoogleTest(&count, arguments);
    if (count > 1) {
        cohort::thousand_events = std::max(2, std::atoi(arguments[1]));
    }
    return RUN_ALL_TESTS();
}
