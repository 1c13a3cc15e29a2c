// Schedules worked out by hand: who makes up an update, with which lag, and who goes on with it.
#include <gmock/gmock.h>

#include <set>

#include "cohort/sched/modes.hpp"
#include "support/sched/engine_script.hpp"
#include "support/sched/plan_for.hpp"

namespace cohort {
namespace {

using test::EngineScript;
using test::plan_for;
using testing::ElementsAre;
using testing::IsEmpty;

SyncPlan servers(std::string_view mode, int workers) {
    return plan_for(mode, Architecture::kServers, workers);
}

/// One cohort of all workers.
SyncPlan quorum_of(int quorum, int workers) {
    return servers("static:" + std::to_string(quorum), workers);
}

TEST(Ssgd, EveryUpdateWaitsForAll) {
    EngineScript run(servers("ssgd", 3), 3);
    EXPECT_THAT(run.pushes(2), IsEmpty());
    EXPECT_THAT(run.pushes(0), IsEmpty());
    EXPECT_THAT(run.engine.awaited(), ElementsAre(1));
    EXPECT_THAT(run.pushes(1), ElementsAre("fire 1: 2 0 1 | go 2 0 1"));
    EXPECT_THAT(run.pushes({0, 1, 2}), ElementsAre("fire 2: 0 1 2 | go 0 1 2"));
    EXPECT_EQ(run.fires[1].fraction, 1);
    EXPECT_EQ(run.fires[1].samples, 24);
    for (const FiredPush& push : run.fires[1].pushes) {
        EXPECT_EQ(push.lag, 0);
        EXPECT_EQ(push.weight, 1);
    }
}

TEST(Asgd, EveryPushIsAnUpdate) {
    EngineScript run(servers("asgd", 4), 4);
    EXPECT_THAT(run.pushes({0, 1, 1, 0}), ElementsAre("fire 1: 0 | go 0", "fire 2: 1 | go 1",
                                                      "fire 3: 1 | go 1", "fire 4: 0 | go 0"));
    EXPECT_EQ(run.fires[3].fraction, 0.25);
    EXPECT_EQ(run.fires[3].pushes[0].lag_updates, 2);
    EXPECT_EQ(run.fires[3].pushes[0].lag, 0.5);
}

TEST(Asgd, AHealthyWorkersLagIsOneReferenceBatchLessItsOwnPart) {
    EngineScript run(servers("asgd", 8), 8);
    for (int round = 0; round < 3; ++round) {
        run.pushes({0, 1, 2, 3, 4, 5, 6, 7});
    }
    EXPECT_DOUBLE_EQ(run.fires.back().pushes[0].lag, 7.0 / 8);
}

TEST(Asgd, ReleasesLookAheadByTheLagOfTheLastPush) {
    EngineScript ahead(servers("asgd", 4), 4);
    EngineScript keep(plan_for("asgd", Architecture::kServers, 4, StaleMomentum::kKeep), 4);
    ahead.pushes({0, 1, 2, 0});
    keep.pushes({0, 1, 2, 0});
    EXPECT_EQ(ahead.fires[0].releases[0].lag, 0);
    EXPECT_EQ(ahead.fires[3].releases[0].lag, 0.5);
    EXPECT_EQ(keep.fires[3].releases[0].lag, 0);
}

TEST(Static, TheFirstXMakeTheUpdateAndLateOnesTheNext) {
    EngineScript run(servers("static:2", 4), 4);
    EXPECT_THAT(run.pushes({3, 0}), ElementsAre("fire 1: 3 0 | go 3 0"));
    EXPECT_THAT(run.pushes({1, 3}), ElementsAre("fire 2: 1 3 | go 1 3"));
    EXPECT_EQ(run.fires[1].pushes[0].lag, 0.5);  // worker 1 missed a round: merged into the next
    EXPECT_EQ(run.fires[1].pushes[1].lag, 0);
    EXPECT_EQ(run.fires[1].fraction, 0.5);
}

TEST(Static, OfAllWorkersIsSsgd) {
    EngineScript all(servers("static:3", 3), 3);
    EngineScript ssgd(servers("ssgd", 3), 3);
    for (const auto& order : std::vector<std::vector<int>>{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}}) {
        EXPECT_EQ(all.pushes(order), ssgd.pushes(order));
    }
}

TEST(Static, OfOneWorkerIsAsgdUnderTheSameArrivals) {
    EngineScript one(servers("static:1", 3), 3);
    EngineScript asgd(servers("asgd", 3), 3);
    const std::vector<int> arrivals = {0, 1, 0, 2, 2, 2, 1, 0, 1, 2};
    EXPECT_EQ(one.pushes(arrivals), asgd.pushes(arrivals));
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
        EXPECT_EQ(one.fires[i].pushes[0].lag, asgd.fires[i].pushes[0].lag);
        EXPECT_EQ(one.fires[i].releases[0].lag, asgd.fires[i].releases[0].lag);
    }
}

/// Workers finish after `seconds` of their own; simulated for `updates`. Returns the mean lag.
double mean_lag_updates(int x, const std::vector<int>& seconds, int updates) {
    const int workers = static_cast<int>(seconds.size());
    EngineScript run(quorum_of(x, workers), workers);
    std::multiset<std::pair<int, int>> finish;  // time, worker
    for (int worker = 0; worker < workers; ++worker) {
        finish.insert({seconds[static_cast<std::size_t>(worker)], worker});
    }
    while (static_cast<int>(run.fires.size()) < updates) {
        const auto [now, worker] = *finish.begin();
        finish.erase(finish.begin());
        const std::size_t before = run.fires.size();
        run.pushes(worker);
        if (run.fires.size() > before) {
            for (const Fire::Release& release : run.fires.back().releases) {
                finish.insert(
                    {now + seconds[static_cast<std::size_t>(release.worker)], release.worker});
            }
        }
    }
    double sum = 0;
    double count = 0;
    for (const Fire& fire : run.fires) {
        for (const FiredPush& push : fire.pushes) {
            sum += static_cast<double>(push.lag_updates);
            count += 1;
        }
    }
    return sum / count;
}

TEST(Static, MeanLagIsWorkersOverXLessOneWhateverTheirSpeeds) {
    const std::vector<int> alike = {100, 101, 103, 107, 109, 113, 97, 99};
    const std::vector<int> mixed = {100, 100, 250, 101, 530, 130, 90, 1000};
    for (const int x : {1, 2, 4, 8}) {
        EXPECT_NEAR(mean_lag_updates(x, alike, 4000), 8.0 / x - 1, 0.03) << x;
        EXPECT_NEAR(mean_lag_updates(x, mixed, 4000), 8.0 / x - 1, 0.03) << x;
    }
}

TEST(Ring, IsOneUpdateOfAll) {
    EngineScript run(plan_for("ring", Architecture::kRing, 2), 2);
    EXPECT_THAT(run.pushes({0, 1}), ElementsAre("fire 1: 0 1 | go 0 1"));
    EXPECT_EQ(run.fires[0].fraction, 1);
}

TEST(FreshOnly, LatePushesAreDroppedAndTheirWorkersStartAgain) {
    SyncPlan backup = quorum_of(2, 3);
    backup.cohorts[0].fresh_only = true;
    backup.late = SyncPlan::Late::kDrop;
    EngineScript run(backup, 3);
    EXPECT_THAT(run.pushes({0, 1}), ElementsAre("fire 1: 0 1 | go 0 1"));
    EXPECT_THAT(run.pushes(2), ElementsAre("refuse 2 dropped", "return 2 dropped", "go 2 @1"));
    EXPECT_THAT(run.pushes({2, 0}), ElementsAre("fire 2: 2 0 | go 2 0"));
}

TEST(FreshOnly, PushesLateByOneRoundMergeWithoutCountingOlderOnesDrop) {
    SyncPlan lgc = quorum_of(2, 4);
    lgc.cohorts[0].fresh_only = true;
    lgc.late_rounds = 1;
    EngineScript run(lgc, 4);
    EXPECT_THAT(run.pushes({0, 1}), ElementsAre("fire 1: 0 1 | go 0 1"));
    EXPECT_THAT(run.pushes({2, 0}), IsEmpty());  // 2 is late: it waits, and does not count
    EXPECT_THAT(run.pushes(1), ElementsAre("fire 2: 2 0 1 | go 2 0 1"));
    EXPECT_EQ(run.fires[1].fraction, 0.75);
    EXPECT_THAT(run.pushes(3), ElementsAre("refuse 3 dropped", "return 3 dropped", "go 3 @2"));
}

TEST(FreshOnly, ALatePushIsAnUpdateOfItsOwnAndItsWorkerGoesOnAtOnce) {
    SyncPlan quorum = quorum_of(2, 4);
    quorum.late = SyncPlan::Late::kAlone;
    EngineScript run(quorum, 4);
    EXPECT_THAT(run.pushes({0, 1}), ElementsAre("fire 1: 0 1 | go 0 1"));
    EXPECT_THAT(run.pushes(2), ElementsAre("fire 2: 2 | go 2"));
    EXPECT_EQ(run.fires[1].fraction, 0.25);
    EXPECT_EQ(run.fires[1].pushes[0].lag, 0.5);
    // Pushes on version 1 still belong to the round that began with it.
    EXPECT_THAT(run.pushes(0), IsEmpty());
    EXPECT_THAT(run.pushes(2), ElementsAre("fire 3: 0 2 | go 0 2"));
    EXPECT_THAT(run.pushes(3), ElementsAre("fire 4: 3 | go 3"));
    EXPECT_EQ(run.engine.accounts().applied, 6 * 8);
}

TEST(Others, AreInterruptedByAFire) {
    SyncPlan ksync = quorum_of(2, 3);
    ksync.cohorts[0].fresh_only = true;
    ksync.late = SyncPlan::Late::kDrop;
    ksync.others = SyncPlan::Others::kInterrupt;
    EngineScript run(ksync, 3);
    const PushTicket on_its_way = run.ticket(1);
    EXPECT_THAT(run.pushes({0, 2}),
                ElementsAre("fire 1: 0 2 | go 0 2", "interrupt 1 @1", "return 1 interrupted"));
    EXPECT_THAT(run.carry_out(run.engine.push(on_its_way)), ElementsAre("refuse 1 interrupted"));
    EXPECT_THAT(run.pushes({1, 0}), testing::Contains("fire 2: 1 0 | go 1 0"));
}

TEST(OnArrival, APusherGoesOnUntilItsWindowIsFull) {
    SyncPlan plan = quorum_of(3, 3);
    plan.cohorts[0].count = CohortSpec::Count::kPushes;
    plan.release = SyncPlan::Release::kOnArrival;
    plan.window = 2;
    EngineScript run(plan, 3);
    EXPECT_THAT(run.pushes(0), ElementsAre("go 0 @0"));
    EXPECT_THAT(run.pushes(0), IsEmpty());  // two outstanding
    EXPECT_THAT(run.pushes(1), ElementsAre("fire 1: 0 0 1 | go 0 1"));
}

TEST(OnArrival, ASecondPushCountsOnlyWherePushesCount) {
    SyncPlan plan = quorum_of(2, 3);
    plan.release = SyncPlan::Release::kOnArrival;
    plan.window = 4;
    EngineScript run(plan, 3);
    EXPECT_THAT(run.pushes({0, 0, 0}), ElementsAre("go 0 @0", "go 0 @0", "go 0 @0"));
    EXPECT_THAT(run.pushes(1), ElementsAre("fire 1: 0 0 0 1 | go 1"));
}

TEST(Gate, NobodyIsMoreThanTheBoundAheadOfTheSlowest) {
    SyncPlan ssp = servers("asgd", 2);
    ssp.clock_bound = 1;
    EngineScript run(ssp, 2);
    EXPECT_THAT(run.pushes({0, 0}), ElementsAre("fire 1: 0 | go 0", "fire 2: 0 | go"));
    EXPECT_THAT(run.pushes(1), ElementsAre("fire 3: 1 | go 1", "go 0 @3"));
}

TEST(Gate, OfZeroHasThePaceOfSsgd) {
    SyncPlan ssp = servers("asgd", 3);
    ssp.clock_bound = 0;
    EngineScript run(ssp, 3);
    EXPECT_THAT(run.pushes({1, 0, 2}), ElementsAre("fire 1: 1 | go", "fire 2: 0 | go",
                                                   "fire 3: 2 | go 2", "go 1 @3", "go 0 @3"));
}

TEST(Riders, JoinTheNextFireAndAreNeverWaitedFor) {
    SyncPlan plan;
    plan.cohorts = {{.members = {0, 1}, .riders = {2}, .quorum = 2}};
    EngineScript run(plan, 3);
    EXPECT_THAT(run.pushes({0, 1}), ElementsAre("fire 1: 0 1 | go 0 1"));
    EXPECT_THAT(run.pushes({2, 0}), IsEmpty());
    EXPECT_THAT(run.pushes(1), ElementsAre("fire 2: 2 0 1 | go 2 0 1"));
}

TEST(Weights, AreThePlansFunctionOfPushAndSet) {
    SyncPlan dynsgd = servers("asgd", 2);
    dynsgd.weight = [](const FiredPush& push, const FiringSet& set) {
        EXPECT_EQ(set.workers, 2);
        return 1.0 / static_cast<double>(push.lag_updates + 1);
    };
    EngineScript run(dynsgd, 2);
    run.pushes({0, 1, 1, 0});
    EXPECT_EQ(run.fires[0].pushes[0].weight, 1);
    EXPECT_DOUBLE_EQ(run.fires[3].pushes[0].weight, 1.0 / 3);
    EXPECT_EQ(run.engine.accounts().applied, 32);
    EXPECT_EQ(run.engine.accounts().discounted, 16);
}

TEST(Published, AnUpdateIsWorthItsOwnUnit) {
    SyncPlan plan = servers("asgd", 4);
    plan.lr_unit = SyncPlan::LrUnit::kPublished;
    plan.published_unit = 8;
    EngineScript run(plan, 4);
    run.pushes(0);
    EXPECT_EQ(run.fires[0].fraction, 1);
}

/// Pending pushes that the next plan can take count for it; others are applied under their own.
TEST(LearningRate, IsScaledByThePlanThatTheUpdateIsMadeUnder) {
    EngineScript run(servers("ssgd@0.5", 2), 2);
    run.pushes({0, 1});
    EXPECT_EQ(run.fires[0].lr_scale, 0.5);
    EXPECT_EQ(run.fires[0].fraction, 1) << "what it is worth stays as it is";
    run.pushes(0);
    run.installs(servers("asgd@0.25", 2));
    ASSERT_EQ(run.fires.size(), 2U);
    EXPECT_EQ(run.fires[1].lr_scale, 0.25) << "taken over";
    run.installs(servers("ssgd@0.5", 2));
    run.pushes(1);
    run.installs(servers("localsgd:2", 2));
    ASSERT_EQ(run.fires.size(), 3U);
    EXPECT_EQ(run.fires[2].lr_scale, 0.5) << "not taken over";
}

TEST(Acceptance, IsThePlansOwnTest) {
    SyncPlan zeno = servers("asgd", 2);
    zeno.accept = [](const PushTicket& ticket) { return ticket.gradient_norm < 1; };
    EngineScript run(zeno, 2);
    PushTicket bad = run.ticket(0);
    bad.gradient_norm = 2;
    EXPECT_THAT(run.carry_out(run.engine.push(bad)),
                ElementsAre("refuse 0 dropped", "return 0 dropped", "go 0 @0"));
    EXPECT_THAT(run.pushes(0), ElementsAre("fire 1: 0 | go 0"));
}

TEST(NonFinite, PushesAreRefusedWhateverThePlan) {
    EngineScript run(servers("ssgd", 2), 2);
    PushTicket bad = run.ticket(0);
    bad.finite = false;
    EXPECT_THAT(run.carry_out(run.engine.push(bad)),
                ElementsAre("refuse 0 non-finite", "return 0 non-finite", "go 0 @0"));
}

}  // namespace
}  // namespace cohort
