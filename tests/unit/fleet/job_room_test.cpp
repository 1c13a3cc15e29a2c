// What a real job tells the controller of its fleet.
#include "fleet/job_room.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "support/core/temp_folder.hpp"
#include "support/sched/plan_for.hpp"
#include "support/train/fake_train_control.hpp"

namespace cohort {
namespace {

constexpr double kCardBytes = 100e6;
constexpr std::int64_t kParameters = 2500000;

/// A server on host 0, workers on hosts 0 and 1.
RealJob two_hosts() {
    return {.number = 3,
            .worker_nodes = {0, 1},
            .server_nodes = {0},
            .nodes = 2,
            .cores = 4,
            .card_bytes_s = kCardBytes,
            .parameter_bytes = 4.0 * static_cast<double>(kParameters)};
}

TEST(RealNeeds, AreTheTransfersBetweenHostsAtTheMeasuredPace) {
    TrainOptions options;
    options.batch = 20;
    const SyncPlan plan = test::plan_for("ssgd", Architecture::kServers, 2);
    // 0.3 s of computing, of which the push hides behind two thirds; 0.1 s for the pull.
    const JobNeeds needs = real_needs(two_hosts(), options, {0.2, 0.3}, plan);
    EXPECT_NEAR(needs.samples_s, 2 * 20 / 0.4, 5);
    const JobDemand& demand = needs.placed.demand;
    EXPECT_EQ(demand.push_bytes, 10e6);
    EXPECT_NEAR(demand.workers[1].iterations_s, 1 / 0.4, 0.15);
    EXPECT_EQ(needs.placed.servers, std::vector{0});
    EXPECT_TRUE(needs.ring.empty());
    TrainOptions rounded = options;
    rounded.wire = Wire::kBf16;
    EXPECT_EQ(real_needs(two_hosts(), rounded, {0.2, 0.3}, plan).placed.demand.push_bytes, 5e6);
    const JobNeeds slow = real_needs(two_hosts(), options, {0.2, 3}, plan);
    EXPECT_LT(slow.samples_s, needs.samples_s / 5);

    const SyncPlan free = test::plan_for("asgd", Architecture::kServers, 2);
    EXPECT_GT(real_needs(two_hosts(), options, {0.2, 20}, free).samples_s, 50)
        << "who waits for nobody goes on as the mean";

    RealJob ring = two_hosts();
    ring.server_nodes = {};
    const JobNeeds of_ring =
        real_needs(ring, options, {0.3, 0.3}, test::plan_for("ssgd", Architecture::kRing, 2));
    ASSERT_EQ(of_ring.ring.size(), 2U);
    EXPECT_GT(of_ring.ring[0].tx, 0.1) << "half of the parameters in both phases";
}

class Observed : public testing::Test {
protected:
    Observed() {
        room.begins(kParameters, [this](FleetReport one) { told.push_back(std::move(one)); });
    }
    void step(double seconds) { room.observer()->on_step(run, run.step(10, seconds)); }
    void switched() { room.observer()->on_switch(run, {}); }
    void measured(double compute_s) {
        run.cluster_report.workers.resize(2);
        run.cluster_report.loads = {{.compute_s = compute_s}, {.compute_s = 2 * compute_s}};
    }

    TempFolder folder;
    FakeTrainControl run{folder.path()};
    std::vector<FleetReport> told;
    JobRoom room{two_hosts(), run.clock()};
};

TEST_F(Observed, TellsEverySecondOnceTimesAreKnown) {
    run.cluster_report.plan = test::plan_for("ssgd", Architecture::kServers, 2);
    run.run_options.batch = 20;
    step(5);
    EXPECT_TRUE(told.empty()) << "nothing was measured";
    measured(0);
    step(5);
    EXPECT_TRUE(told.empty());
    measured(0.1);
    step(0.4);
    step(0.4);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_TRUE(told[0].runs);
    EXPECT_EQ(told[0].job, 3U);
    EXPECT_EQ(told[0].samples, 30);
    EXPECT_EQ(told[0].going.budget_samples, 1000);
    EXPECT_EQ(told[0].going.reference_batch, 40);
    EXPECT_EQ(
        told[0].going.needs.samples_s,
        real_needs(two_hosts(), run.run_options, {0.15, 0.2}, run.cluster_report.plan).samples_s)
        << "of the slowest worker, for which the others wait";
    step(0.7);
    EXPECT_EQ(told.size(), 2U);
}

TEST_F(Observed, TellsOfAnotherPlanAtOnce) {
    run.cluster_report.plan = test::plan_for("ssgd", Architecture::kServers, 2);
    run.cluster_report.plan.id = 1;
    measured(0.1);
    step(0.1);
    run.cluster_report.plan = test::plan_for("asgd", Architecture::kServers, 2);
    run.cluster_report.plan.id = 2;
    switched();
    ASSERT_EQ(told.size(), 2U);
    EXPECT_EQ(told[1].going.plan, 2U);
    EXPECT_NE(told[1].going.needs.samples_s, told[0].going.needs.samples_s);
}

TEST_F(Observed, AWishIsRefusedUntilTheControllerHasAnswered) {
    const SyncPlan wanted = test::plan_for("asgd", Architecture::kServers, 2);
    run.cluster_report.plan = test::plan_for("ssgd", Architecture::kServers, 2);
    EXPECT_TRUE(room.admits(wanted, 1)) << "the controller does not know the job yet";
    measured(0.1);
    step(0.1);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_FALSE(room.admits(wanted, 0.9));
    EXPECT_FALSE(room.admits(wanted, 0.9)) << "asked once";
    ASSERT_EQ(told.size(), 2U);
    EXPECT_EQ(told[1].wish.plan, "asgd");
    EXPECT_EQ(told[1].wish.worth, 0.9);
    EXPECT_NE(told[1].wish.needs.samples_s, told[1].going.needs.samples_s);
    room.answered("static:4", true);
    EXPECT_FALSE(room.admits(wanted, 1)) << "the answer to something else";
    room.answered("asgd", true);
    EXPECT_TRUE(room.admits(wanted, 1));
    run.virtual_clock.advance(JobRoom::kHolds + Clock::Seconds(1));
    EXPECT_FALSE(room.admits(wanted, 1)) << "an old answer";
    EXPECT_EQ(told.size(), 3U);
    room.answered("asgd", false);
    EXPECT_FALSE(room.admits(wanted, 1));
    EXPECT_EQ(told.size(), 3U);
}

TEST_F(Observed, AnotherPlanMakesAnswersWorthless) {
    const SyncPlan wanted = test::plan_for("static:2", Architecture::kServers, 2);
    run.cluster_report.plan = test::plan_for("ssgd", Architecture::kServers, 2);
    measured(0.1);
    step(0.1);
    EXPECT_FALSE(room.admits(wanted, 1));
    room.answered(wanted.name, true);
    EXPECT_TRUE(room.admits(wanted, 1));
    run.cluster_report.plan.id = 9;
    switched();
    EXPECT_FALSE(room.admits(wanted, 1));
}

}  // namespace
}  // namespace cohort
