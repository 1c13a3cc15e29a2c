// Grants on real ranks: what jobs report, and whose ranks are told what.
#include "fleet/real_room.hpp"

#include <gtest/gtest.h>

#include "core/bytes.hpp"
#include "fleet/job_room.hpp"
#include "support/sched/plan_for.hpp"

namespace cohort {
namespace {

constexpr double kCardBytes = 100e6;
constexpr int kHosts = 3;

TrainOptions options_of(std::int64_t batch) {
    TrainOptions options;
    options.arch = Architecture::kServers;
    options.batch = batch;
    return options;
}

/// A server and a worker on a host of their own, and a worker on host 1.
FleetReport report_of(std::uint64_t job, std::int64_t samples, double compute_s,
                      std::uint64_t plan = 1) {
    const int own = job == 0 ? 0 : 2;
    const TrainOptions options = options_of(10);
    FleetReport report{.job = job,
                       .runs = true,
                       .error = {},
                       .samples = samples,
                       .lost = {},
                       .going = {},
                       .wish = {}};
    report.going = {.budget_samples = job == 0 ? 1000 : 100000,
                    .reference_batch = 20,
                    .plan = plan,
                    .plan_name = "ssgd",
                    .needs = real_needs({.worker_nodes = {own, 1},
                                         .server_nodes = {own},
                                         .nodes = kHosts,
                                         .cores = 4,
                                         .card_bytes_s = kCardBytes,
                                         .parameter_bytes = 5e6},
                                        options, {compute_s, compute_s},
                                        test::plan_for("ssgd", Architecture::kServers, 2))};
    return decode<FleetReport>(encode(report));  // as it travels
}

RealRoom room_of(RoomRule rule) {
    return {rule, {kHosts, {.cores = 4, .rx_bytes_s = kCardBytes, .tx_bytes_s = kCardBytes}}};
}

TEST(RealRoom, TheShorterJobGetsAGrantOnceBothHaveReported) {
    RealRoom room = room_of(RoomRule::kShortest);
    EXPECT_TRUE(room.review_if_due(0).empty());
    room.heard(report_of(1, 100, 0.05), 1);
    EXPECT_TRUE(room.review_if_due(1).empty()) << "alone nobody needs a grant";
    room.heard(report_of(0, 100, 0.05), 2);
    const auto told = room.review_if_due(2);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].job, 0U);
    EXPECT_GT(told[0].weight, 1);
    room.heard(report_of(0, 200, 0.052), 3);
    EXPECT_TRUE(room.review_if_due(3).empty()) << "nothing has changed";
    room.end(0, 4);
    EXPECT_TRUE(room.review_if_due(4).empty()) << "ranks that are free have no weight";
    FleetResult result;
    result.jobs.resize(2);
    room.report(result, 5);
    EXPECT_EQ(result.grants->granted, 1);
    EXPECT_EQ(result.grants->returned, 1);
    EXPECT_EQ(result.grants->list.at(0).to_s, 4);
}

TEST(RealRoom, AnotherPlanReturnsTheGrantAndTheRanksAreTold) {
    RealRoom room = room_of(RoomRule::kShortest);
    room.heard(report_of(0, 100, 0.05), 1);
    room.heard(report_of(1, 100, 0.05), 1);
    ASSERT_EQ(room.review_if_due(1).size(), 1U);
    room.heard(report_of(0, 200, 100, 2), 2);  // computes for so long that no card matters
    const auto told = room.review_if_due(2);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].job, 0U);
    EXPECT_EQ(told[0].weight, 1);
}

TEST(RealRoom, AWishThatCostsTheOthersMoreIsRefused) {
    RealRoom room = room_of(RoomRule::kShortest);
    room.heard(report_of(0, 100, 0.05), 1);
    FleetReport wish = report_of(1, 100, 0.05);
    wish.wish = {.plan = "asgd", .worth = 0.1, .needs = report_of(1, 100, 0.001).going.needs};
    room.heard(wish, 1);
    EXPECT_FALSE(room.admits(wish, 1));
    wish.wish.plan = "backup:1";
    wish.wish.needs.placed.demand.push_bytes = wish.wish.needs.placed.demand.pull_bytes = 0;
    EXPECT_TRUE(room.admits(wish, 1)) << "what it is worth is the chooser's affair";
    wish.wish.plan = "localsgd:8";
    wish.wish.worth = 1;
    wish.wish.needs = report_of(1, 100, 10).going.needs;
    wish.wish.needs.samples_s = wish.going.needs.samples_s;
    EXPECT_TRUE(room.admits(wish, 1)) << "as fast, with fewer transfers";
    FleetResult result;
    result.jobs.resize(2);
    room.report(result, 2);
    ASSERT_EQ(result.grants->refused_plans.size(), 1U);
    EXPECT_EQ(result.grants->refused_plans[0].from, "ssgd");
    EXPECT_EQ(result.grants->refused_plans[0].to, "asgd");
}

TEST(RealRoom, GrantsNothingWhenItIsOff) {
    RealRoom room = room_of(RoomRule::kOff);
    room.heard(report_of(0, 100, 0.05), 1);
    room.heard(report_of(1, 100, 0.05), 1);
    EXPECT_TRUE(room.review_if_due(1).empty());
    FleetResult result;
    room.report(result, 2);
    EXPECT_FALSE(result.grants);
}

}  // namespace
}  // namespace cohort
