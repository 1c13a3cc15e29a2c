// What the next round of a ring is, and how its members change, without ranks and without time.
#include "sched/session/ring/ring.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace cohort {
namespace {

using testing::ElementsAre;

SyncPlan plan_of(std::vector<int> members, std::vector<int> riders, Work work = Work::kGradient) {
    SyncPlan plan;
    plan.cohorts.push_back({.members = std::move(members), .riders = std::move(riders)});
    plan.work = work;
    return plan;
}

/// A ring whose members always have leases of ten samples, and whose workers obey at once.
struct FakeRing final : RingDriver {
    explicit FakeRing(const SyncPlan& plan) : ring(*this, {0, 0, 0, 0}) { ring.plans.place(plan); }

    [[nodiscard]] double learning_rate(std::int64_t samples) const override {
        return static_cast<double>(samples);
    }
    RoundLease claim(int worker) override {
        return idle ? RoundLease()
                    : RoundLease{.lease = ++leases, .samples = 10, .steps = worker + 1};
    }
    bool usable(const PushId& push) override { return !push.incarnation; }
    void give_role(int worker, RingRole role, int parent) override {
        ring.roster.assign(worker, role, parent);
        ring.riders.progress(worker).begun = begun[worker];
    }
    void enter(int worker, int giver) override {
        ring.roster.assign(worker, RingRole::kMember, 0);
        givers[worker] = giver;
    }
    PushId ride(int worker, Work work = Work::kGradient, std::uint32_t incarnation = 0) {
        const PushId push{
            .worker = worker, .incarnation = incarnation, .sequence = ++begun[worker]};
        ring.riders.add_gradient(push, 0);
        ring.riders.add_ticket({.id = push, .lease = ++leases, .samples = 5, .work = work});
        return push;
    }

    Ring ring;
    bool idle = false;
    std::uint64_t leases = 0;
    std::map<int, std::uint64_t> begun;
    std::map<int, int> givers;
};

std::vector<int> riders_of(const Round& round) {
    std::vector<int> workers;
    for (const PushId& rider : round.riders) {
        workers.push_back(rider.worker);
    }
    return workers;
}

TEST(RoundScheduler, GrantsTwoRoundsAndTheGradientsThatParentsHold) {
    const SyncPlan plan = plan_of({0, 1}, {2, 3});
    FakeRing job(plan);
    job.ride(3);
    job.ride(2);
    job.ride(2, Work::kGradient, 1);  // not usable
    const Round* const first = job.ring.rounds.grant(plan, 100);
    ASSERT_NE(first, nullptr);
    EXPECT_THAT(riders_of(*first), ElementsAre(3, 2)) << "in order of arrival";
    EXPECT_EQ(first->samples, 30);
    EXPECT_EQ(first->members[0].all_samples(), 20);
    EXPECT_EQ(first->lr, 100);
    EXPECT_EQ(job.ring.rounds.grant(plan, 100)->lr, 130) << "after the first";
    EXPECT_EQ(job.ring.rounds.grant(plan, 100), nullptr);
    EXPECT_EQ(job.ring.rounds.take_oldest().number, 1U);
    EXPECT_EQ(job.ring.rounds.grant(plan, 100)->number, 3U);
}

TEST(RoundScheduler, ASkippedRoundLeavesItsGradientsToTheNext) {
    const SyncPlan plan = plan_of({0, 1}, {2, 3});
    FakeRing job(plan);
    job.ride(2);
    EXPECT_NE(job.ring.rounds.grant(plan, 0), nullptr);
    job.ride(3);
    EXPECT_EQ(riders_of(job.ring.rounds.skip_newest()), std::vector<int>{2});
    EXPECT_THAT(riders_of(*job.ring.rounds.grant(plan, 0)), ElementsAre(2, 3));
}

TEST(RoundScheduler, WithoutSamplesOfMembersGradientsGoOneByOne) {
    const SyncPlan plan = plan_of({0, 1}, {2, 3});
    FakeRing job(plan);
    job.idle = true;
    EXPECT_EQ(job.ring.rounds.grant(plan, 0), nullptr);
    job.ride(2);
    job.ride(3);
    EXPECT_THAT(riders_of(*job.ring.rounds.grant(plan, 0)), ElementsAre(2));
    EXPECT_THAT(riders_of(*job.ring.rounds.grant(plan, 0)), ElementsAre(3));
}

TEST(RoundScheduler, AGradientAmongDeltasIsARoundOfItsOwn) {
    const SyncPlan plan = plan_of({0, 1}, {2, 3}, Work::kDelta);
    FakeRing job(plan);
    job.ride(3, Work::kDelta);
    job.ride(2);
    const Round* round = job.ring.rounds.grant(plan, 0);
    EXPECT_THAT(riders_of(*round), ElementsAre(2));
    EXPECT_EQ(round->work, Work::kGradient);
    EXPECT_EQ(round->samples, 5);
    round = job.ring.rounds.grant(plan, 0);
    EXPECT_THAT(riders_of(*round), ElementsAre(3));
    EXPECT_EQ(round->work, Work::kDelta);
    EXPECT_EQ(round->steps, 2) << "of the member with the most";
}

TEST(PlanSwitch, TheFenceWaitsForWhatAnEnteringRiderHadBegun) {
    FakeRing job(plan_of({0, 1}, {2, 3}));
    const PushId push = job.ride(2);
    job.ring.plans.install({.plan = plan_of({0, 2}, {1, 3}), .batches = {}}, true);
    EXPECT_EQ(job.ring.roster.seat(2).role, RingRole::kHold);
    EXPECT_FALSE(job.ring.plans.ready());
    job.ring.riders.settle(push);
    EXPECT_TRUE(job.ring.plans.ready());
    job.ring.plans.switch_members(job.ring.plans.take().plan);
    EXPECT_FALSE(job.ring.plans.ready());
    EXPECT_THAT(job.ring.roster.members(), ElementsAre(0, 2));
    EXPECT_EQ(job.givers, (std::map<int, int>{{2, 0}}));
    EXPECT_EQ(job.ring.roster.seat(1).role, RingRole::kRider);
    EXPECT_EQ(job.ring.roster.seat(1).parent, 2) << "the member with fewer riders";
}

TEST(PlanSwitch, TheNewestPlanCountsWithTheNewestBatches) {
    FakeRing job(plan_of({0, 1}, {2, 3}));
    job.ring.plans.install({.plan = plan_of({0, 2}, {1, 3}), .batches = {1, 2, 3, 4}}, true);
    job.ring.plans.install({.plan = plan_of({0, 1, 3}, {2}), .batches = {}}, true);
    EXPECT_EQ(job.ring.roster.seat(2).role, RingRole::kRider) << "it rides on";
    const PlanChange next = job.ring.plans.take();
    EXPECT_THAT(next.plan.cohorts.front().members, ElementsAre(0, 1, 3));
    EXPECT_THAT(next.batches, ElementsAre(1, 2, 3, 4));
}

TEST(PlanSwitch, APlanWhoseMembersAreLostDoesNotCount) {
    FakeRing job(plan_of({0, 1}, {2, 3}));
    job.ring.plans.install({.plan = plan_of({2}, {0, 1, 3}), .batches = {}}, true);
    EXPECT_FALSE(job.ring.roster.lose(2)) << "a rider";
    job.ring.plans.prepare();
    EXPECT_FALSE(job.ring.plans.ready());
}

}  // namespace
}  // namespace cohort
