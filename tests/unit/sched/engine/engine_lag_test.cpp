// The lag rule: stragglers are seen by the lag of their parameters, and nobody waits for them.
#include <gmock/gmock.h>

#include <algorithm>

#include "cohort/sched/modes.hpp"
#include "support/sched/engine_script.hpp"
#include "support/sched/plan_for.hpp"

namespace cohort {
namespace {

using test::EngineScript;
using test::plan_for;
using testing::ElementsAre;

/// asgd on 4 workers with a bound of one reference batch, four updates.
SyncPlan bounded(SyncPlan::LagAction action) {
    SyncPlan plan = plan_for("asgd", Architecture::kServers, 4);
    plan.lag_rule = {.bound = 1, .action = action};
    return plan;
}

TEST(LagRule, RefreshInterruptsWhoeverPassesTheBound) {
    EngineScript run(bounded(SyncPlan::LagAction::kRefresh), 4);
    run.pushes({0, 1, 2, 0});  // worker 3 lags by exactly the bound
    EXPECT_THAT(run.pushes(1),
                ElementsAre("fire 5: 1 | go 1", "interrupt 3 @5", "return 3 interrupted"));
    EXPECT_THAT(run.pushes(3), ElementsAre("fire 6: 3 | go 3"));
    EXPECT_EQ(run.fires.back().pushes[0].lag, 0);
}

TEST(LagRule, AfterTwoInterruptionsTheNextPushIsAdmittedAndWeighed) {
    EngineScript run(bounded(SyncPlan::LagAction::kRefresh), 4);
    run.pushes({0, 1, 2, 0, 1});
    EXPECT_FALSE(run.engine.needs_short_lease(3));
    run.pushes({0, 1, 2, 0, 1});
    EXPECT_TRUE(run.engine.needs_short_lease(3));
    const EngineScript::Lines lines = run.pushes({0, 1, 2, 0, 1, 2, 0});
    EXPECT_EQ(std::count(lines.begin(), lines.end(), "interrupt 3 @15"), 0);
    EXPECT_THAT(run.pushes(3), ElementsAre("fire 18: 3 | go 3"));
    const FiredPush& push = run.fires.back().pushes[0];
    EXPECT_TRUE(push.over_bound);
    EXPECT_EQ(push.lag, 1.75);
    EXPECT_DOUBLE_EQ(push.weight, 1 / (1.75 + 0.25));
    EXPECT_EQ(run.engine.accounts().over_bound, 8);
    EXPECT_EQ(run.engine.accounts().discounted, 8);
    EXPECT_EQ(run.engine.accounts().returned_for(ReturnReason::kInterrupted), 16);
    EXPECT_FALSE(run.engine.needs_short_lease(3));
}

TEST(LagRule, WhoHasNoSecondLeaseStartsWithTheNewestParametersOnceItGetsOne) {
    UpdateEngine engine({.workers = 2, .reference_batch = 8},
                        plan_for("saps:1", Architecture::kServers, 2));
    std::vector<std::int64_t> interrupted;
    engine.leased(1, 100, 4);
    for (std::uint64_t i = 1; i <= 3; ++i) {
        engine.leased(0, i, 4);
        const auto version = static_cast<std::int64_t>(i) - 1;
        for (const Effect& effect :
             engine.push({.id = {0, 0, i}, .lease = i, .version = version, .samples = 4})) {
            if (const auto* one = std::get_if<Interrupt>(&effect)) {
                interrupted.push_back(one->version);
            }
        }
    }
    EXPECT_THAT(interrupted, ElementsAre(3));  // its only lease came back
    engine.leased(1, 101, 4);
    const auto effects = engine.push({.id = {1, 0, 1}, .lease = 101, .version = 3, .samples = 4});
    EXPECT_EQ(std::get<Fire>(effects.at(0)).pushes.at(0).lag, 0);
    EXPECT_EQ(engine.accounts().returned_for(ReturnReason::kInterrupted), 4);
}

TEST(LagRule, TheSecondLeaseStaysWithWhoIsInterrupted) {
    UpdateEngine engine({.workers = 2, .reference_batch = 8},
                        plan_for("saps:0.5", Architecture::kServers, 2));
    engine.leased(1, 100, 4);
    engine.leased(1, 101, 4);
    for (std::uint64_t i = 1; i <= 2; ++i) {
        engine.leased(0, i, 4);
        (void)engine.push({.id = {0, 0, i},
                           .lease = i,
                           .version = static_cast<std::int64_t>(i) - 1,
                           .samples = 4});
    }
    EXPECT_THAT(engine.push({.id = {1, 0, 1}, .lease = 100, .version = 0, .samples = 4}),
                testing::ElementsAre(testing::VariantWith<Refuse>(testing::_)));
    const auto effects = engine.push({.id = {1, 0, 2}, .lease = 101, .version = 2, .samples = 4});
    EXPECT_EQ(std::get<Fire>(effects.at(0)).version, 3);
}

TEST(LagRule, DropRefusesThePushThatArrives) {
    EngineScript run(bounded(SyncPlan::LagAction::kDrop), 4);
    EXPECT_THAT(run.pushes({0, 1, 2, 0, 1}), testing::SizeIs(5));
    EXPECT_THAT(run.pushes(3), ElementsAre("refuse 3 dropped", "return 3 dropped", "go 3 @5"));
    run.pushes({0, 1, 2, 0, 1});
    EXPECT_THAT(run.pushes(3), ElementsAre("refuse 3 dropped", "return 3 dropped", "go 3 @10"));
    run.pushes({0, 1, 2, 0, 1});
    EXPECT_THAT(run.pushes(3), ElementsAre("fire 16: 3 | go 3"));  // two in a row
}

TEST(LagRule, DiscountAppliesWithLessWeight) {
    EngineScript run(bounded(SyncPlan::LagAction::kDiscount), 4);
    run.pushes({0, 1, 2, 0, 1, 2, 0});
    EXPECT_THAT(run.pushes(3), ElementsAre("fire 8: 3 | go 3"));
    EXPECT_DOUBLE_EQ(run.fires.back().pushes[0].weight, 1 / (1.75 + 0.25));
    EXPECT_EQ(run.fires.back().fraction, 0.25);
}

TEST(LagRule, InstalledInMidRunInterruptsWhoIsOverIt) {
    EngineScript run(plan_for("asgd", Architecture::kServers, 4), 4);
    run.pushes({0, 1, 2, 0, 1, 2, 0});
    EXPECT_THAT(run.installs(bounded(SyncPlan::LagAction::kRefresh)),
                ElementsAre("interrupt 3 @7", "return 3 interrupted"));
}

TEST(LagRule, AHealthyClusterNeverNoticesTheDefaultBound) {
    SyncPlan saps = bounded(SyncPlan::LagAction::kRefresh);
    saps.lag_rule->bound = 2;
    EngineScript run(saps, 4);
    for (int round = 0; round < 100; ++round) {
        for (const int worker : {0, 1, 2, 3}) {
            EXPECT_EQ(run.pushes(worker).size(), 1u);
        }
    }
    EXPECT_EQ(run.engine.accounts().applied, 3200);
}

TEST(Lag, IsKnownHoweverLongAWorkerTakes) {
    EngineScript run(plan_for("asgd", Architecture::kServers, 2), 2);
    for (int i = 0; i < 50'000; ++i) {
        run.pushes(0);
        run.fires.clear();
    }
    run.pushes(1);
    EXPECT_EQ(run.fires[0].pushes[0].lag_updates, 50'000);
    EXPECT_EQ(run.fires[0].pushes[0].lag, 25'000);
}

}  // namespace
}  // namespace cohort
