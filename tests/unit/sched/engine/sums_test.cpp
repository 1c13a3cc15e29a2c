// What executors share: coefficients of updates, local steps, groups, when policies are asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "cohort/sched/modes.hpp"
#include "cohort/sched/policy.hpp"
#include "sched/engine/fire_sum.hpp"
#include "sched/plan/lease_work.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;

FiredPush push_of(std::int64_t samples, double weight = 1, double norm = 0) {
    return {.ticket = {.samples = samples, .gradient_norm = norm}, .weight = weight};
}

Fire fire_of(std::vector<FiredPush> pushes, Work work = Work::kGradient) {
    Fire fire{.work = work, .pushes = std::move(pushes)};
    for (const FiredPush& push : fire.pushes) {
        fire.samples += push.ticket.samples;
    }
    return fire;
}

TEST(SumCoefficients, OfGradientsAreTheirSharesOfTheSamples) {
    const Fire fire = fire_of({push_of(64), push_of(32, 0.5), push_of(32)});
    EXPECT_THAT(sum_coefficients(fire, {}, 512), ElementsAre(0.5, 0.125, 0.25));
}

/// Samples of a step as a share of a reference batch, or of them all when they are more.
TEST(SumCoefficients, OfDeltasCountTheSamplesOfAStep) {
    const Fire fire = fire_of({push_of(64, 0.5), push_of(48)}, Work::kDelta);
    const std::vector<std::int32_t> steps{4, 3};
    EXPECT_THAT(sum_coefficients(fire, steps, 64), ElementsAre(0.125, 0.25));
    EXPECT_THAT(sum_coefficients(fire, steps, 16), ElementsAre(0.25, 0.5));
}

TEST(ShortLease, IsAnEighthAndNeverNothing) {
    EXPECT_EQ(short_lease_of(64), 8);
    EXPECT_EQ(short_lease_of(7), 1);
}

TEST(LeaseGivenUp, IsTheOneThatFollowsForTheSameWorkerAndReason) {
    const ReturnLease its{
        .lease = 7, .samples = 64, .worker = 1, .reason = ReturnReason::kInterrupted};
    ReturnLease lost = its;
    lost.reason = ReturnReason::kLost;
    ReturnLease others = its;
    others.worker = 2;
    const std::vector<Effect> effects{Interrupt{.worker = 1}, its,    Interrupt{.worker = 1}, lost,
                                      Interrupt{.worker = 1}, others, Interrupt{.worker = 1}};
    const ReturnLease* const found = lease_given_up(effects, 0);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->lease, 7U);
    EXPECT_EQ(lease_given_up(effects, 1), nullptr) << "no interrupt";
    EXPECT_EQ(lease_given_up(effects, 2), nullptr) << "of another reason";
    EXPECT_EQ(lease_given_up(effects, 4), nullptr) << "of another worker";
    EXPECT_EQ(lease_given_up(effects, 6), nullptr) << "nothing follows";
}

TEST(LocalSteps, AreFewerForAShortLease) {
    SyncPlan plan;
    EXPECT_EQ(steps_per_push(plan), 1);
    EXPECT_EQ(local_steps_of(64, 64, plan), 1);
    plan.work = Work::kDelta;
    plan.local_steps = 8;
    EXPECT_EQ(steps_per_push(plan), 8);
    EXPECT_EQ(local_steps_of(8 * 64, 64, plan), 8);
    EXPECT_EQ(local_steps_of(3 * 64 + 31, 64, plan), 3);
    EXPECT_EQ(local_steps_of(3 * 64 + 32, 64, plan), 4);
    EXPECT_EQ(local_steps_of(1, 64, plan), 1);
}

TEST(AveragingGroups, AreConsecutiveLiveMembersOfACohort) {
    SyncPlan plan;
    plan.group = 2;
    plan.cohorts = {{.members = {0, 2, 4, 6}, .riders = {}}, {.members = {1, 3, 5}, .riders = {}}};
    const std::vector<bool> live{true, true, false, true, true, true, true};
    EXPECT_THAT(averaging_groups(plan, live),
                ElementsAre(ElementsAre(0, 4), ElementsAre(6), ElementsAre(1, 3), ElementsAre(5)));
}

/// A run of equal workers but for one: asking a policy only when it looks changes nothing.
class Looking : public testing::TestWithParam<const char*> {};

std::vector<std::string> decisions(const std::string& mode, bool always, int& asked) {
    constexpr int kWorkers = 4;
    const ModeSetting setting{.live = std::vector<bool>(kWorkers, true), .batch = 10};
    const std::unique_ptr<ModePolicy> policy = make_policy(mode, setting);
    (void)policy->start();
    Telemetry telemetry{.budget_samples = 4000, .workers = {}};
    telemetry.workers.resize(kWorkers);
    std::vector<std::string> reasons;
    for (int push = 0; push < 400; ++push) {
        WorkerReport& worker = telemetry.workers[push % kWorkers];
        ++worker.pushes;
        const bool slow = push % kWorkers == 1 && push > 60 && push < 200;
        worker.own_s = worker.last_own_s = slow ? 3 : 1;
        ++telemetry.updates;
        telemetry.samples_applied += 10;
        const RunCounts counts{.updates = telemetry.updates,
                               .pushes = push + 1,
                               .samples_applied = telemetry.samples_applied,
                               .budget_samples = telemetry.budget_samples};
        if (always || policy->looks(counts)) {
            ++asked;
            const Decision decision = policy->decide(telemetry);
            if (decision.plan || !decision.batches.empty()) {
                reasons.push_back(std::to_string(push) + " " + decision.reason);
            }
        }
    }
    return reasons;
}

TEST_P(Looking, AtTheRightMomentsIsEnough) {
    int always = 0;
    int seldom = 0;
    const std::vector<std::string> all = decisions(GetParam(), true, always);
    EXPECT_EQ(decisions(GetParam(), false, seldom), all);
    EXPECT_EQ(always, 400);
    EXPECT_LE(seldom, std::string(GetParam()) == "cutoff" ? 400 : 110);
}

INSTANTIATE_TEST_SUITE_P(Policies, Looking,
                         testing::Values("ssgd", "asgd", "dynamic", "lb-bsp", "flexrr", "cutoff",
                                         "sync-switch:0.3", "sync-switch:0.9"));

}  // namespace
}  // namespace cohort
