// Every mode's rule on schedules worked out by hand: who makes up an update, weights, versions,
// fractions and the parameter they lead to, and the setting at which it is ssgd or asgd exactly.
// Two or four workers, 8 samples a push; theta starts at 0, worker i's gradient is what it was
// given less i + 1, the learning rate is 1 and, where not said otherwise, there is no momentum.
#include <gmock/gmock.h>

#include <cmath>

#include "support/sched/scalar_training.hpp"

namespace cohort {
namespace {

using test::EngineScript;
using test::ScalarTraining;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

const ScalarTraining::Rule kMomentum{.eta = 0.3, .momentum = 0.9};
const ScalarTraining::Rule kPublished{.lr_rule = SyncPlan::LrUnit::kPublished};

/// Rounds of all workers, each time in another order.
std::vector<int> rounds(int workers, int count) {
    std::vector<int> order;
    for (int round = 0; round < count; ++round) {
        for (int i = 0; i < workers; ++i) {
            order.push_back((i * (round % 2 == 0 ? 1 : workers - 1) + round) % workers);
        }
    }
    return order;
}

void expect_same(const std::string& mode, const std::string& other, int workers,
                 const std::vector<int>& order, const ScalarTraining::Rule& rule,
                 double tolerance = 0) {
    ScalarTraining a(mode, workers, rule);
    ScalarTraining b(other, workers, rule);
    a.pushes(order);
    b.pushes(order);
    EXPECT_NEAR(a.theta(), b.theta(), tolerance) << mode << " is not " << other;
    EXPECT_NE(a.theta(), 0) << mode;
}

TEST(Parity, ModesThatWaitForAllAreSsgd) {
    for (const char* mode :
         {"static:4", "ksync:4", "backup:0", "lgc:0", "dynamic", "cutoff", "lb-bsp"}) {
        expect_same(mode, "ssgd", 4, rounds(4, 20), kMomentum);
    }
    expect_same("kbatch-sync:4", "ssgd", 4, rounds(4, 20), kMomentum);
}

TEST(Parity, ModesThatWaitForNobodyAreAsgd) {
    const std::vector<int> order = {0, 1, 1, 3, 0, 2, 2, 1, 3, 3, 3, 0, 1, 2, 0, 0};
    for (const char* mode : {"static:1", "kbatch-async:1", "ssp:1000", "adadelay:1,0", "dcasgd:0",
                             "saps:1000", "zeno++", "flexrr:1000", "sync-switch:0"}) {
        expect_same(mode, "asgd", 4, order, kMomentum);
    }
    for (const char* mode : {"kbatch-async:1", "ssp:1000", "adadelay:1,0", "saps:1000"}) {
        expect_same(mode, "asgd", 4, order, kPublished);
    }
}

TEST(Parity, WithOneWorkerAsgdIsSsgdAndSoAreItsRelatives) {
    for (const char* mode : {"asgd", "dynsgd", "ssp", "saps", "zeno++", "softsync:1"}) {
        expect_same(mode, "ssgd", 1, rounds(1, 20), kMomentum);
    }
}

TEST(Parity, LocalStepsOfOneAreSsgdWithoutMomentumGroupsOfAllWithIt) {
    expect_same("localsgd:1", "ssgd", 4, rounds(4, 20), {.eta = 0.3}, 1e-12);
    expect_same("hier:4:1", "ssgd", 4, rounds(4, 20), kMomentum, 1e-12);
    expect_same("hier:1:5", "localsgd:5", 4, rounds(4, 6), kMomentum);
}

TEST(Parity, AGateOfZeroLeadsToSsgdsParametersWithoutMomentum) {
    expect_same("ssp:0", "ssgd", 4, rounds(4, 20), {.eta = 0.3}, 1e-12);
}

TEST(Asgd, AppliesEveryPushAsItArrives) {
    ScalarTraining run("asgd", 2);
    run.pushes({0});  // g = -1, f = 1/2
    EXPECT_EQ(run.theta(), 0.5);
    run.pushes({1});  // g = 0 - 2
    EXPECT_EQ(run.theta(), 1.5);
    run.pushes({0});  // g = 0.5 - 1
    EXPECT_EQ(run.theta(), 1.75);
    EXPECT_EQ(run.last().pushes[0].lag, 0.5);
    EXPECT_EQ(run.last().version, 3);
}

TEST(Asgd, WithMomentumTheSecondWorkerComputesWhereTheFirstWillBe) {
    ScalarTraining run("asgd", 2, {.eta = 1, .momentum = 0.25});
    run.pushes({0, 1});
    const double v1 = (1 - std::sqrt(0.25)) / 0.75 * -1;  // m^f = 1/2
    const double theta1 = -(0.5 * -1 - 0.25 * v1) / 0.75;
    const double v2 = 0.5 * v1 + 0.5 / 0.75 * -2;
    const double theta2 = theta1 - (0.5 * -2 - 0.25 * (v2 - v1)) / 0.75;
    EXPECT_NEAR(run.theta(), theta2, 1e-15);
    run.pushes({1});  // it had lagged by 1/2: given theta2 - v2 m (1 - m^(1/2)) / (1 - m)
    const double given = theta2 - v2 * 0.25 * 0.5 / 0.75;
    const double v3 = 0.5 * v2 + 0.5 / 0.75 * (given - 2);
    EXPECT_NEAR(run.theta(), theta2 - (0.5 * (given - 2) - 0.25 * (v3 - v2)) / 0.75, 1e-15);
}

TEST(Static, TakesTheMeanOfTheFirstX) {
    ScalarTraining run("static:2", 4);
    run.pushes({3, 1});  // -(4 + 2)/2, f = 1/2
    EXPECT_EQ(run.theta(), 1.5);
    run.pushes({0, 3});  // 0 - 1 late by one update, 1.5 - 4
    EXPECT_EQ(run.theta(), 1.5 + 0.5 * (1 + 2.5) / 2);
    EXPECT_EQ(run.last().pushes[0].lag, 0.5);
}

TEST(Ksync, UsesTheFirstKAndInterruptsTheOthers) {
    ScalarTraining run("ksync:2", 4);
    const EngineScript::Lines lines = run.pushes({3, 1});
    EXPECT_THAT(lines, ElementsAre("fire 1: 3 1 | go 3 1", "interrupt 0 @1", "return 0 interrupted",
                                   "interrupt 2 @1", "return 2 interrupted"));
    EXPECT_EQ(run.theta(), 1.5);
    run.pushes({0, 2});  // both with the new parameters: 1.5 - 1, 1.5 - 3
    EXPECT_EQ(run.theta(), 1.5 - 0.5 * (0.5 - 1.5) / 2);
    EXPECT_EQ(run.last().fraction, 0.5);
}

TEST(Backup, DropsWhatMissesItsRoundAndLetsItsWorkerFinish) {
    ScalarTraining run("backup:1", 4);
    EXPECT_THAT(run.pushes({0, 1, 2}), ElementsAre("fire 1: 0 1 2 | go 0 1 2"));
    EXPECT_EQ(run.theta(), 0.75 * 2);
    EXPECT_THAT(run.pushes({3}), ElementsAre("refuse 3 dropped", "return 3 dropped", "go 3 @1"));
    EXPECT_EQ(run.theta(), 1.5);
    run.pushes({3, 0, 1});  // 1.5 - 4, 1.5 - 1, 1.5 - 2
    EXPECT_EQ(run.theta(), 1.5 - 0.75 * (-2.5 + 0.5 - 0.5) / 3);
    EXPECT_EQ(run.last().version, 2);
}

TEST(Lgc, WeighsTheFastAndTheLateByTheirNumbers) {
    ScalarTraining run("lgc:1", 4);
    run.pushes({0, 1, 2});
    EXPECT_EQ(run.theta(), 0.75 * 2);
    EXPECT_THAT(run.pushes({3, 0, 1}), IsEmpty()) << "three wait, but only two are fresh";
    EXPECT_THAT(run.pushes({2}), ElementsAre("fire 2: 3 0 1 2 | go 3 0 1 2"));
    const double fast = ((1.5 - 1) + (1.5 - 2) + (1.5 - 3)) / 3;
    EXPECT_DOUBLE_EQ(run.theta(), 1.5 - (3.0 / 4 * fast + 1.0 / 4 * -4));
    EXPECT_EQ(run.last().fraction, 1);
}

TEST(Lgc, DropsWhatIsLateByTwoRounds) {
    ScalarTraining run("lgc:1", 4);
    run.pushes({0, 1, 2, 0, 1, 2});
    EXPECT_EQ(run.last().version, 2);
    EXPECT_THAT(run.pushes({3}), ElementsAre("refuse 3 dropped", "return 3 dropped", "go 3 @2"));
}

TEST(KbatchAsync, CountsPushesAndLetsTheirWorkersGoOn) {
    ScalarTraining run("kbatch-async:3", 4);
    EXPECT_THAT(run.pushes({0, 0, 1}), ElementsAre("go 0 @0", "fire 1: 0 0 1 | go 0 1"));
    EXPECT_EQ(run.theta(), 0.75 * (1 + 1 + 2) / 3);
    EXPECT_THAT(run.pushes({3, 0}), ElementsAre("go 3 @1", "go 0 @1"));
    run.pushes({3});
    EXPECT_DOUBLE_EQ(run.theta(), 1 - 0.75 * (-4 + 0 + (1 - 4)) / 3);
    EXPECT_EQ(run.last().pushes[0].lag, 0.75);
    EXPECT_EQ(run.last().pushes[2].lag, 0);
}

TEST(KbatchSync, CountsPushesOnOneVersionAndInterruptsWhoComputes) {
    ScalarTraining run("kbatch-sync:3", 4);
    const EngineScript::Lines lines = run.pushes({0, 1, 0});
    EXPECT_THAT(lines, ElementsAre("go 0 @0", "go 1 @0", "fire 1: 0 1 0 | go 0", "interrupt 1 @1",
                                   "return 1 interrupted", "interrupt 2 @1", "return 2 interrupted",
                                   "interrupt 3 @1", "return 3 interrupted"));
    EXPECT_EQ(run.theta(), 0.75 * (1 + 2 + 1) / 3);
    run.pushes({1, 2, 3});
    EXPECT_EQ(run.theta(), 1 - 0.75 * (-1 - 2 - 3) / 3);
    for (const FiredPush& push : run.last().pushes) {
        EXPECT_EQ(push.lag_updates, 0);
    }
}

TEST(Softsync, WeighsByTheInverseOfTheLagInUpdates) {
    ScalarTraining run("softsync:2", 4);  // c = 2
    run.pushes({0, 1});
    EXPECT_EQ(run.theta(), 0.5 * 1.5);
    run.pushes({0, 1, 2, 3});
    // 0 went on at once, on version 0: late by one update, whole; 1: 0.75 - 2; then 2 and 3, late
    // by two: half
    const double second = 0.75 - 0.5 * (-1 - 1.25) / 2;
    EXPECT_DOUBLE_EQ(run.theta(), second + 0.5 * (0.5 * 3 + 0.5 * 4) / 2);
    EXPECT_EQ(run.last().pushes[0].weight, 0.5);
    EXPECT_EQ(run.last().fraction, 0.5);
    EXPECT_EQ(run.script.fires[1].pushes[0].lag_updates, 1);
    EXPECT_EQ(run.script.fires[1].pushes[0].weight, 1);
}

TEST(Ssp, HoldsWhoIsAhead) {
    ScalarTraining run("ssp:1", 2);
    EXPECT_THAT(run.pushes({0, 0}), ElementsAre("fire 1: 0 | go 0", "fire 2: 0 | go"));
    EXPECT_EQ(run.theta(), 0.5 + 0.25);
    EXPECT_THAT(run.pushes({1}), ElementsAre("fire 3: 1 | go 1", "go 0 @3"));
    EXPECT_EQ(run.theta(), 1.75);
    run.pushes({0});  // was given theta after the wait
    EXPECT_EQ(run.theta(), 1.75 - 0.5 * 0.75);
}

TEST(Dynsgd, TheStepIsThePublishedOneUnderEitherRule) {
    for (const SyncPlan::LrUnit rule :
         {SyncPlan::LrUnit::kPerSample, SyncPlan::LrUnit::kPublished}) {
        ScalarTraining run("dynsgd", 2, {.eta = 0.5, .lr_rule = rule});
        run.pushes({0});  // eta
        EXPECT_EQ(run.theta(), 0.5);
        run.pushes({1});  // eta / 2
        EXPECT_EQ(run.theta(), 1);
        EXPECT_EQ(run.last().fraction, rule == SyncPlan::LrUnit::kPublished ? 1 : 0.5);
        EXPECT_EQ(run.last().pushes[0].weight, rule == SyncPlan::LrUnit::kPublished ? 0.5 : 1);
        run.pushes({1, 1, 0});  // 1 - 2, 1.5 - 2; then 0: 0.5 - 1, late by three updates
        EXPECT_EQ(run.theta(), 1.75 + 0.5 / 4 * 0.5);
    }
}

TEST(Adadelay, TheStepShrinksWithTimeAndLag) {
    ScalarTraining run("adadelay:2,0.5", 2);
    run.pushes({0, 1});
    const double first = 0.5 / (2 + 0.5 * std::sqrt(1));
    EXPECT_DOUBLE_EQ(run.theta(), first + 0.5 * 2 / (2 + 0.5 * std::sqrt(2 + 1)));
    EXPECT_EQ(run.last().fraction, 0.5);
}

TEST(Dcasgd, PushesAreMovedToWhereTheParametersAre) {
    ScalarTraining run("dcasgd:0.25", 2);
    run.pushes({0, 1});  // -2 + 1/4 * 4 * (0.5 - 0)
    EXPECT_EQ(run.theta(), 0.5 + 0.5 * 1.5);
}

TEST(Saps, RefreshesWhoLagsAndAdmitsItsThirdPush) {
    ScalarTraining run("saps:1", 4);
    run.pushes({0, 1, 2, 0});
    const EngineScript::Lines lines = run.pushes({1});
    EXPECT_THAT(lines, Contains("interrupt 3 @5"));
    const double given = run.theta();
    run.pushes({3});
    EXPECT_DOUBLE_EQ(run.theta(), given - 0.25 * (given - 4));
    EXPECT_EQ(run.last().pushes[0].lag, 0);
    EXPECT_FALSE(run.last().pushes[0].over_bound);
}

TEST(Saps, NobodyEverWaits) {
    ScalarTraining run("saps:0.5", 4, kMomentum);
    std::uint64_t dice = 1;
    for (int i = 0; i < 2000; ++i) {
        dice = dice * 6364136223846793005ULL + 1442695040888963407ULL;
        const int worker = static_cast<int>(dice >> 61) % 4;
        const EngineScript::Lines lines = run.pushes({worker});
        const bool applied = lines.front() == "fire " + std::to_string(run.last().version) + ": " +
                                                  std::to_string(worker) + " | go " +
                                                  std::to_string(worker);
        ASSERT_TRUE(applied) << "step " << i;
        for (const FiredPush& push : run.last().pushes) {
            ASSERT_TRUE(push.lag <= 0.5 || push.over_bound);
        }
    }
    EXPECT_GT(run.script.engine.accounts().over_bound, 0);
}

TEST(Zeno, ComparesWithTheReferenceAndGivesItsLength) {
    ScalarTraining run("zeno++", 2);
    run.pushes({1});  // no reference yet: g = -2, f = 1/2
    EXPECT_EQ(run.theta(), 1);
    run.reference = 1;
    EXPECT_THAT(run.pushes({0}), ElementsAre("refuse 0 dropped", "return 0 dropped", "go 0 @1"))
        << "g = -1 points the other way";
    EXPECT_EQ(run.theta(), 1);
    run.reference = -0.25;
    run.pushes({1});  // g = 1 - 2: four times too long
    EXPECT_EQ(run.last().pushes[0].weight, 0.25);
    EXPECT_EQ(run.theta(), 1.125);
    run.reference = -4;
    run.pushes({1});  // g = 1.125 - 2: too short
    EXPECT_EQ(run.last().pushes[0].weight, 4 / 0.875);
    EXPECT_EQ(run.theta(), 3.125);
    run.pushes({0});  // g = 1 - 1 has no length that could be changed
    EXPECT_EQ(run.last().pushes[0].weight, 1);
    EXPECT_EQ(run.theta(), 3.125);
}

TEST(Zeno, BoundsTheCosine) {
    PushTicket ticket{.gradient_norm = 4, .reference_dot = 0.09, .reference_norm = 2};
    const auto accepts = [&ticket](const char* mode) {
        return test::plan_for(mode, Architecture::kServers, 2).accept(ticket);
    };
    EXPECT_TRUE(accepts("zeno++")) << "0.09 / 8 is more than 0.01";
    EXPECT_FALSE(accepts("zeno++:0.02"));
    ticket.reference_dot = -0.7;
    EXPECT_FALSE(accepts("zeno++:0"));
    EXPECT_TRUE(accepts("zeno++:-0.1"));
    ticket.reference_norm = 0;
    ticket.reference_dot = 0;
    EXPECT_TRUE(accepts("zeno++")) << "there is no reference yet";
}

TEST(Localsgd, MovesByTheMeanOfTheDeltas) {
    ScalarTraining run("localsgd:2", 2, {.eta = 0.5});
    run.pushes({0, 1});  // two steps to halfway and half of the rest: 3/4 of 1 and of 2
    EXPECT_EQ(run.theta(), (0.75 + 1.5) / 2);
    EXPECT_EQ(run.last().work, Work::kDelta);
    EXPECT_EQ(run.last().pushes[0].weight, 1);
}

TEST(Hier, GroupsAverageGradientsAndAllAverageDeltas) {
    ScalarTraining run("hier:2:2", 4, {.eta = 0.5});
    run.pushes({0, 1, 2, 3});  // groups go 3/4 of the way to 1.5 and to 3.5
    EXPECT_EQ(run.theta(), 0.75 * (1.5 + 3.5) / 2);
}

TEST(Dynamic, GroupsDoNotWaitForEachOther) {
    SyncPlan plan =
        make_plan("dynamic", {.live = std::vector<bool>(4, true), .own_seconds = {1, 5, 1, 1}});
    EngineScript run(plan, 4);
    EXPECT_THAT(run.pushes({0, 2, 3}), ElementsAre("fire 1: 0 2 3 | go 0 2 3"));
    EXPECT_THAT(run.pushes({3, 1}), ElementsAre("fire 2: 1 | go 1"));
    EXPECT_EQ(run.fires[1].pushes[0].lag, 0.75);
    EXPECT_EQ(run.fires[1].fraction, 0.25);
    EXPECT_THAT(run.pushes({0, 2}), ElementsAre("fire 3: 3 0 2 | go 3 0 2"));
    EXPECT_EQ(run.fires[2].pushes[0].lag, 0.25);
}

TEST(Ring, RidersJoinTheRoundAfterTheyArrive) {
    const SyncPlan plan = test::plan_for("ring:2", Architecture::kRing, 3);
    EngineScript run(plan, 3);
    EXPECT_THAT(run.pushes({0, 1}), ElementsAre("fire 1: 0 1 | go 0 1"));
    EXPECT_THAT(run.pushes({2, 0, 1}), ElementsAre("fire 2: 2 0 1 | go 2 0 1"));
    EXPECT_EQ(run.fires[1].fraction, 1);
    EXPECT_NEAR(run.fires[1].pushes[0].lag, 2.0 / 3, 1e-15);
    EXPECT_NEAR(run.fires[1].releases[0].lag, 2.0 / 3, 1e-15);
    EXPECT_EQ(run.fires[1].releases[1].lag, 0);
}

TEST(AdaScale, TheGainTakesThePlaceOfTheFraction) {
    const auto gain = [](double phi, std::int64_t samples) {
        SyncPlan plan = test::plan_for("asgd", Architecture::kServers, 1);
        plan.lr_unit = SyncPlan::LrUnit::kAdaScale;
        UpdateEngine engine({.workers = 1, .reference_batch = 1024}, plan);
        engine.set_noise_scale(phi);
        engine.leased(0, 1, samples);
        const auto effects = engine.push({.id = {0, 0, 1}, .lease = 1, .samples = samples});
        return std::get<Fire>(effects.at(0)).fraction;
    };
    EXPECT_NEAR(gain(1389.58, 128), 0.1988, 5e-5);
    EXPECT_NEAR(gain(1389.58, 256), 0.3667, 5e-5);
    EXPECT_NEAR(gain(1389.58, 512), 0.6346, 5e-5);
    EXPECT_NEAR(gain(1389.58, 896), 0.9240, 5e-5);
    EXPECT_NEAR(gain(185.8, 128), 0.4819, 5e-5);
    EXPECT_NEAR(gain(185.8, 256), 0.6846, 5e-5);
    EXPECT_NEAR(gain(185.8, 512), 0.8669, 5e-5);
    EXPECT_NEAR(gain(185.8, 896), 0.9785, 5e-5);
    EXPECT_EQ(gain(185.8, 1024), 1);
    EXPECT_EQ(gain(0, 256), 0.25) << "not known yet";
}

TEST(AdaScale, LagIsStillMeasuredInReferenceBatches) {
    SyncPlan plan = test::plan_for("asgd", Architecture::kServers, 4);
    plan.lr_unit = SyncPlan::LrUnit::kAdaScale;
    EngineScript run(plan, 4);
    run.engine.set_noise_scale(32);  // gain of 1/4: 1/4 * 64 / 40
    run.pushes({0, 1, 0});
    EXPECT_DOUBLE_EQ(run.fires[2].fraction, 0.4);
    EXPECT_EQ(run.fires[2].pushes[0].lag, 0.25);
    EXPECT_DOUBLE_EQ(run.fires[2].releases[0].lag, 0.4) << "the optimizer moves on by gains";
}

}  // namespace
}  // namespace cohort
