// Tails, losses, joins and changes of plan: nothing is lost, nobody waits for who cannot push.
#include <gmock/gmock.h>

#include "cohort/core/error.hpp"
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

TEST(Tail, NobodyWaitsForWhoHasNoLeaseLeft) {
    EngineScript run(servers("ssgd", 3), 3);
    EXPECT_THAT(run.pushes_last(2), IsEmpty());
    EXPECT_THAT(run.pushes({0, 1}), ElementsAre("fire 1: 2 0 1 | go 2 0 1"));
    EXPECT_THAT(run.pushes({0, 1}), ElementsAre("fire 2: 0 1 | go 0 1"));
    EXPECT_DOUBLE_EQ(run.fires[1].fraction, 2.0 / 3);  // B stays that of the start
}

/// Workers 0 and 1 push, then both are lost with the host that holds their payloads.
TEST(Lost, PushesWhosePayloadsAreGoneAreRefusedBeforeAnythingFires) {
    EngineScript run(servers("ssgd", 4), 4);
    const PushTicket first = run.ticket(0);
    const PushTicket second = run.ticket(1);
    EXPECT_THAT(run.carry_out(run.engine.push(first)), IsEmpty());
    EXPECT_THAT(run.carry_out(run.engine.push(second)), IsEmpty());
    EXPECT_THAT(run.pushes(2), IsEmpty());
    (void)run.loses(0);
    const auto effects = run.carry_out(run.engine.lost(1, {first.id, second.id}));
    EXPECT_THAT(effects, testing::IsSupersetOf(
                             {"refuse 0 lost", "return 0 lost", "refuse 1 lost", "return 1 lost"}));
    EXPECT_TRUE(run.fires.empty());
    EXPECT_EQ(run.engine.pending(), 1);
    EXPECT_THAT(run.pushes(3), ElementsAre("fire 1: 2 3 | go 2 3"));
    const EngineAccounts accounts = run.engine.accounts();
    EXPECT_EQ(accounts.leased,
              accounts.applied + accounts.outstanding + accounts.returned_for(ReturnReason::kLost));
}

TEST(Tail, TheLastToBecomeIdleLetsTheOthersGo) {
    EngineScript run(servers("ssgd", 3), 3);
    run.pushes({0, 1});
    EXPECT_THAT(run.carry_out(run.engine.take_back(2, ReturnReason::kStop)),
                ElementsAre("return 2 stop"));
    EXPECT_THAT(run.carry_out(run.engine.idle(2)), ElementsAre("fire 1: 0 1 | go 0 1"));
}

TEST(Tail, WhoIsIdleButStillHasALeaseIsWaitedFor) {
    EngineScript run(servers("ssgd", 2), 2);
    EXPECT_THAT(run.carry_out(run.engine.idle(1)), IsEmpty());
    EXPECT_THAT(run.pushes(0), IsEmpty());
    EXPECT_THAT(run.pushes_last(1), ElementsAre("fire 1: 0 1 | go 0 1"));
}

TEST(Tail, WhoResumesStartsOnTheParametersItHas) {
    EngineScript run(servers("ssgd", 2), 2);
    run.pushes_last(1);
    run.pushes({0, 0});
    EXPECT_EQ(run.engine.version(), 2);
    EXPECT_THAT(run.resumes(1), IsEmpty());
    EXPECT_THAT(run.pushes({0, 1}), ElementsAre("fire 3: 0 1 | go 0 1"));
    EXPECT_EQ(run.fires.back().pushes[1].lag, 0.5);
}

TEST(Tail, AGateDoesNotWaitForWhoIsIdle) {
    SyncPlan ssp = servers("asgd", 2);
    ssp.clock_bound = 0;
    EngineScript run(ssp, 2);
    EXPECT_THAT(run.pushes(0), ElementsAre("fire 1: 0 | go"));
    EXPECT_THAT(run.pushes_last(1), ElementsAre("fire 2: 1 | go 1", "go 0 @2"));
    EXPECT_THAT(run.pushes({0, 0}), ElementsAre("fire 3: 0 | go 0", "fire 4: 0 | go 0"));
    EXPECT_THAT(run.resumes(1), IsEmpty());  // with the clock of the slowest
    EXPECT_THAT(run.pushes(1), ElementsAre("fire 5: 1 | go"));
}

TEST(Lost, ItsCompletePushesStayAndItsLeasesReturn) {
    EngineScript run(servers("ssgd", 3), 3);
    run.pushes({0, 1});
    EXPECT_THAT(run.loses(0), IsEmpty());
    EXPECT_THAT(run.loses(2), ElementsAre("return 2 lost", "fire 1: 0 1 | go 1"));
    EXPECT_THAT(run.pushes(1), ElementsAre("fire 2: 1 | go 1"));
    EXPECT_EQ(run.engine.accounts().returned_for(ReturnReason::kLost), 8);
}

TEST(Lost, PushesOfAnOldIncarnationAreRefused) {
    EngineScript run(servers("asgd", 2), 2);
    const PushTicket late = run.ticket(1);
    EXPECT_THAT(run.loses(1), ElementsAre("return 1 lost"));
    EXPECT_THAT(run.carry_out(run.engine.push(late)), ElementsAre("refuse 1 lost"));
    run.pushes({0, 0, 0});
    EXPECT_THAT(run.joins(1), ElementsAre("go 1 @3"));
    EXPECT_EQ(run.engine.incarnation(1), 1u);
    EXPECT_THAT(run.carry_out(run.engine.push(late)), ElementsAre("refuse 1 lost"));
    EXPECT_THAT(run.pushes(1), ElementsAre("fire 4: 1 | go 1"));
}

TEST(Lost, WhoComesBackIsWaitedForOnceThePushItLeftIsApplied) {
    EngineScript run(servers("ssgd", 2), 2);
    run.pushes(1);
    run.loses(1);
    run.joins(1);
    EXPECT_THAT(run.pushes(0), ElementsAre("fire 1: 1 0 | go 0"));
    EXPECT_THAT(run.pushes(0), IsEmpty());
    EXPECT_THAT(run.pushes(1), ElementsAre("fire 2: 0 1 | go 0 1"));
}

TEST(Riders, OfACohortThatCannotFireFormOneOfTheirOwn) {
    SyncPlan plan;
    plan.cohorts = {{.members = {0}, .riders = {1, 2}}};
    EngineScript run(plan, 3);
    EXPECT_THAT(run.pushes(1), IsEmpty());
    EXPECT_THAT(run.loses(0), ElementsAre("return 0 lost", "fire 1: 1 | go 1"));
    EXPECT_THAT(run.pushes({2, 1}), ElementsAre("fire 2: 2 | go 2", "fire 3: 1 | go 1"));
}

TEST(Joined, WhoHasNoPlaceRidesWithTheFirstCohort) {
    EngineScript run(servers("ssgd", 3), 3);
    run.loses(2);
    SyncPlan two = servers("ssgd", 2);
    run.installs(two);
    EXPECT_THAT(run.joins(2), ElementsAre("go 2 @0"));
    EXPECT_THAT(run.pushes(2), IsEmpty());
    EXPECT_THAT(run.pushes({0, 1}), ElementsAre("fire 1: 2 0 1 | go 2 0 1"));
}

TEST(Install, PendingPushesMoveAndCohortsThatMeetTheirQuorumFire) {
    EngineScript run(servers("ssgd", 4), 4);
    run.pushes({2, 0});
    EXPECT_THAT(run.installs(servers("asgd", 4)),
                ElementsAre("fire 1: 2 | go 2", "fire 2: 0 | go 0"));
    EXPECT_EQ(run.fires[1].pushes[0].lag, 0.25);  // weighed at the fire
    run.pushes({1, 2});
    EXPECT_THAT(run.installs(servers("ssgd", 4)), IsEmpty());
    EXPECT_THAT(run.pushes({0, 1, 2, 3}), ElementsAre("fire 5: 0 1 2 3 | go 0 1 2 3"));
}

TEST(Install, CarriedOverPushesCountWhateverTheirVersion) {
    EngineScript run(servers("static:2", 3), 3);
    run.pushes({0, 1, 2});  // 2 is pending, computed on version 0
    SyncPlan backup = servers("static:2", 3);
    backup.cohorts[0].fresh_only = true;
    backup.late = SyncPlan::Late::kDrop;
    EXPECT_THAT(run.installs(backup), IsEmpty());
    EXPECT_THAT(run.pushes(0), ElementsAre("fire 2: 2 0 | go 2 0"));
}

TEST(Install, WhoWasHeldBackGoesOn) {
    SyncPlan ssp = servers("asgd", 2);
    ssp.clock_bound = 0;
    EngineScript run(ssp, 2);
    EXPECT_THAT(run.pushes(0), ElementsAre("fire 1: 0 | go"));
    EXPECT_THAT(run.installs(servers("asgd", 2)), ElementsAre("go 0 @1"));
}

TEST(Install, ClocksStartAgain) {
    SyncPlan ssp = servers("asgd", 2);
    ssp.clock_bound = 3;
    EngineScript run(ssp, 2);
    run.pushes({0, 0, 0});
    run.installs(ssp);
    EXPECT_THAT(run.pushes({0, 0, 0}),
                ElementsAre("fire 4: 0 | go 0", "fire 5: 0 | go 0", "fire 6: 0 | go 0"));
    EXPECT_THAT(run.pushes(0), ElementsAre("fire 7: 0 | go"));
}

TEST(Install, GradientsAndDeltasAreNeverMixed) {
    SyncPlan local = servers("ssgd", 3);
    local.work = Work::kDelta;
    EngineScript run(local, 3);
    run.pushes(0);
    const PushTicket in_flight = run.ticket(1);
    EXPECT_THAT(run.installs(servers("ssgd", 3)), ElementsAre("fire 1: 0 | go 0"));
    EXPECT_EQ(run.fires[0].work, Work::kDelta);
    run.pushes(2);
    EXPECT_THAT(run.carry_out(run.engine.push(in_flight)), ElementsAre("fire 2: 1 | go 1"));
    EXPECT_EQ(run.fires[1].work, Work::kDelta);
    EXPECT_THAT(run.pushes({0, 1}), ElementsAre("fire 3: 2 0 1 | go 2 0 1"));
    EXPECT_EQ(run.fires[2].work, Work::kGradient);
}

TEST(Install, WhatIsComputedThenIsNotLateBecauseOfIt) {
    EngineScript run(servers("asgd", 3), 3);
    run.pushes({0, 1, 0});
    run.installs(servers("backup:1", 3));
    EXPECT_THAT(run.pushes({2, 0}), ElementsAre("fire 4: 2 0 | go 2 0"));
    EXPECT_THAT(run.pushes(1), ElementsAre("refuse 1 dropped", "return 1 dropped", "go 1 @4"));
}

TEST(Install, APlansWeightsAreNotForPushesOfAnotherWork) {
    SyncPlan local = servers("localsgd:2", 2);
    EngineScript run(local, 2);
    const PushTicket delta = run.ticket(0);
    run.installs(servers("dynsgd", 2));
    run.carry_out(run.engine.push(delta));
    EXPECT_EQ(run.fires.back().work, Work::kDelta);
    EXPECT_EQ(run.fires.back().pushes[0].weight, 1);
    run.pushes(1);
    EXPECT_EQ(run.fires.back().pushes[0].weight, 1);  // 2 / (1 + 1)
}

TEST(Install, WhoIsReleasedByItStartsAsTheNewPlanSays) {
    EngineScript run(servers("static:2", 4), 4);
    run.pushes({0, 1});
    run.pushes(2);  // pending, late by half a reference batch
    const auto effects = run.engine.install(servers("localsgd:2", 4));
    const auto& fire = std::get<Fire>(effects.at(0));
    EXPECT_EQ(fire.pushes.at(0).lag, 0.5);
    EXPECT_EQ(fire.releases.at(0).lag, 0) << "local steps start at the parameters as they are";
}

TEST(Install, WhoWasIdleResumesUnderTheNewPlan) {
    EngineScript run(servers("ssgd", 3), 3);
    run.pushes_last(2);
    run.pushes({0, 1});
    run.installs(servers("ksync:3", 3));
    EXPECT_THAT(run.pushes({0, 1}), ElementsAre("fire 2: 0 1 | go 0 1"));
    EXPECT_THAT(run.resumes(2), IsEmpty());
    EXPECT_THAT(run.pushes({0, 1}), IsEmpty()) << "it is waited for";
    EXPECT_THAT(run.pushes(2), ElementsAre("refuse 2 dropped", "return 2 dropped", "go 2 @2"));
    EXPECT_THAT(run.pushes(2), ElementsAre("fire 3: 0 1 2 | go 0 1 2"));
}

TEST(Install, APlanThatDoesNotFitLeavesTheOldOne) {
    EngineScript run(servers("asgd", 3), 3);
    EXPECT_THROW(run.installs(servers("ssgd", 2)), UsageError);
    EXPECT_EQ(run.engine.plan().name, "asgd");
    EXPECT_THAT(run.pushes(2), ElementsAre("fire 1: 2 | go 2"));
}

TEST(Accounts, AddUpThroughAStop) {
    EngineScript run(servers("static:2", 3), 3);
    run.pushes({0, 1, 2});
    const EngineAccounts before = run.engine.accounts();
    EXPECT_EQ(before.applied, 16);
    EXPECT_EQ(before.outstanding, 24);  // one pending, two being computed
    EXPECT_THAT(run.carry_out(run.engine.stop()),
                ElementsAre("refuse 2 stop", "return 2 stop", "return 0 stop", "return 1 stop"));
    const EngineAccounts after = run.engine.accounts();
    EXPECT_EQ(after.leased, 40);
    EXPECT_EQ(after.applied, 16);
    EXPECT_EQ(after.returned_for(ReturnReason::kStop), 24);
    EXPECT_EQ(after.outstanding, 0);
    EXPECT_EQ(run.engine.pending(), 0);
}

TEST(Accounts, ALeaseIsAppliedOnce) {
    EngineScript run(servers("asgd", 2), 2);
    const PushTicket ticket = run.ticket(0);
    run.carry_out(run.engine.push(ticket));
    EXPECT_THAT(run.carry_out(run.engine.push(ticket)), ElementsAre("refuse 0 dropped"));
    EXPECT_EQ(run.engine.accounts().applied, 8);
}

TEST(VoidRound, LeasesReturnAndTheVersionStays) {
    EngineScript run(plan_for("ring", Architecture::kRing, 2), 2);
    EXPECT_THAT(run.carry_out(run.engine.take_back(0, ReturnReason::kVoidRound)),
                ElementsAre("return 0 void"));
    EXPECT_EQ(run.engine.version(), 0);
    EXPECT_EQ(run.engine.accounts().returned_for(ReturnReason::kVoidRound), 8);
}

TEST(Start, GoesOnFromACheckpoint) {
    UpdateEngine engine(
        {.workers = 1, .reference_batch = 8, .version = 70, .reference_batches = 35.5},
        servers("asgd", 1));
    engine.leased(0, 1, 4);
    const auto effects = engine.push({.id = {0, 0, 1}, .lease = 1, .version = 70, .samples = 4});
    EXPECT_EQ(std::get<Fire>(effects.at(0)).version, 71);
    EXPECT_EQ(engine.reference_batches(), 36);
}

TEST(Tickets, ThatContradictThemselvesAreFaultsOfTheCaller) {
    UpdateEngine engine({.workers = 1, .reference_batch = 8}, servers("asgd", 1));
    engine.leased(0, 1, 4);
    PushTicket ticket{.id = {0, 0, 1}, .lease = 1, .version = 1, .samples = 4};
    EXPECT_THROW((void)engine.push(ticket), std::logic_error);
    engine.leased(0, 2, 4);
    ticket = {.id = {0, 0, 1}, .lease = 2, .version = 0, .samples = 5};
    EXPECT_THROW((void)engine.push(ticket), std::logic_error);
    EXPECT_THROW(engine.leased(1, 3, 4), std::logic_error);
}

}  // namespace
}  // namespace cohort
