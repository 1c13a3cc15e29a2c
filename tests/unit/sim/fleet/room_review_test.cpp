// Grants of a fleet over time, without a cluster: when they are given, reviewed and returned.
#include "sim/fleet/room_review.hpp"

#include <gtest/gtest.h>

#include <string>

namespace cohort {
namespace {

constexpr double kCardBytes = 1e9;

/// A server on node 0 and a worker on a node of its own; its transfers take these shares of an
/// iteration of 1 s on the card of node 0, each way.
JobNeeds needs_on(int node, double share) {
    JobNeeds needs;
    needs.placed.servers = {0};
    needs.placed.demand.workers = {{.node = node, .iterations_s = 1}};
    needs.placed.demand.shares = {1};
    needs.placed.demand.push_bytes = needs.placed.demand.pull_bytes = share * kCardBytes;
    needs.samples_s = 100;
    return needs;
}

RoomReview::Size size_of(std::int64_t budget) {
    return {.budget_samples = budget, .reference_batch = 100};
}

RoomReview three_nodes(RoomRule rule) {
    return {rule, {3, {.cores = 8, .rx_bytes_s = kCardBytes, .tx_bytes_s = kCardBytes}}};
}

/// A short job and a long one that meet on the card of node 0, since time 0.
RoomReview crowd() {
    RoomReview room = three_nodes(RoomRule::kShortest);
    room.start(0, 0, size_of(1000), needs_on(1, 0.4));
    room.start(1, 0, size_of(100000), needs_on(2, 0.4));
    room.review(0);
    return room;
}

FleetResult report_of(RoomReview& room, double now_s) {
    FleetResult result;
    result.jobs.resize(2);
    room.report(result, now_s);
    return result;
}

TEST(RoomReview, WhoHasLessLeftGetsAGrantThatIsReturnedWhenTheJobEnds) {
    RoomReview room = crowd();
    EXPECT_GT(room.weight(0), 1);
    EXPECT_EQ(room.weight(1), 1);
    const FleetResult during = report_of(room, 5);
    EXPECT_EQ(during.grants->granted, 1);
    EXPECT_EQ(during.grants->returned, 0);
    ASSERT_EQ(during.grants->list.size(), 1U) << "the one in force, as if it ended now";
    EXPECT_EQ(during.grants->list[0].to_s, 5);
    room.end(0, 8);
    EXPECT_FALSE(room.runs(0));
    EXPECT_TRUE(room.due(8));
    room.review(8);
    const FleetResult result = report_of(room, 20);
    EXPECT_EQ(result.grants->returned, 1);
    ASSERT_EQ(result.grants->list.size(), 1U);
    EXPECT_EQ(result.grants->list[0].job, 0);
    EXPECT_EQ(result.grants->list[0].from_s, 0);
    EXPECT_EQ(result.grants->list[0].to_s, 8);
    EXPECT_EQ(result.jobs[0].grants, 1);
    EXPECT_GT(*result.jobs[0].room_taken_s, 0);
    EXPECT_DOUBLE_EQ(*result.jobs[0].room_taken_s, result.grants->list[0].gained_s);
    EXPECT_GT(*result.jobs[1].room_given_s, 0);
}

TEST(RoomReview, AChangeOfThePlanReturnsTheGrant) {
    RoomReview room = crowd();
    room.release(0, 3);
    EXPECT_EQ(room.weight(0), 1);
    EXPECT_TRUE(room.due(3));
    room.needs(0, 3, needs_on(1, 0.001));  // hardly transfers any more
    room.review(3);
    EXPECT_EQ(room.weight(0), 1) << "it needs no grant";
    EXPECT_EQ(report_of(room, 4).grants->returned, 1);
}

TEST(RoomReview, IsDueAfterAChangeAndAfterAMinute) {
    RoomReview room = crowd();
    EXPECT_FALSE(room.due(1));
    EXPECT_FALSE(room.due(RoomReview::kReviewSeconds - 1));
    EXPECT_TRUE(room.due(RoomReview::kReviewSeconds));
    room.end(7, 1);
    EXPECT_FALSE(room.due(1)) << "nobody knows that job";
    RoomReview off = three_nodes(RoomRule::kOff);
    off.start(0, 0, size_of(1000), needs_on(1, 0.4));
    EXPECT_FALSE(off.due(1e6));
    EXPECT_FALSE(report_of(off, 1).grants);
}

TEST(RoomReview, AFleetThatGoesOnKeepsItsRecord) {
    RoomReview first = crowd();
    const FleetGrants before = *report_of(first, 5).grants;
    RoomReview room = crowd();
    room.resume(before);
    room.end(0, 9);
    const FleetResult result = report_of(room, 10);
    EXPECT_EQ(result.grants->granted, 2);
    EXPECT_EQ(result.grants->returned, 2) << "the stop has ended the first one";
    ASSERT_EQ(result.grants->list.size(), 2U);
    EXPECT_EQ(result.grants->list[0].to_s, 5);
    EXPECT_EQ(result.grants->list[1].to_s, 9);
    EXPECT_EQ(result.jobs[0].grants, 2);
}

TEST(RoomReview, RingsAreLoadBesideTheOthers) {
    RoomReview room = three_nodes(RoomRule::kProgress);
    JobNeeds ring;
    ring.ring = {{.rx = 0.5}, {.tx = 0.25}, {}};
    ring.samples_s = 10;
    room.start(0, 0, size_of(1000), ring);
    room.start(1, 0, size_of(1000), needs_on(1, 0.4));
    room.review(0);
    EXPECT_EQ(room.placed().size(), 1U);
    EXPECT_EQ(room.nodes()[0].used.rx, 0.5);
    EXPECT_EQ(room.nodes()[1].used.tx, 0.25);
    EXPECT_EQ(room.weight(0), 1);
    EXPECT_TRUE(room.admits(0, 1, {.from = "a", .to = "b", .needs = ring}));
}

TEST(RoomReview, APlanThatTakesMoreThanItBringsIsRefusedUntilTheNextReview) {
    RoomReview room = crowd();
    const RoomReview::Wish wish{.from = "ssgd", .to = "asgd", .needs = needs_on(2, 0.95)};
    EXPECT_FALSE(room.admits(1, 1, wish));
    EXPECT_FALSE(room.admits(1, 2, wish));
    room.review(3);
    EXPECT_FALSE(room.admits(1, 4, wish));
    const FleetResult result = report_of(room, 5);
    ASSERT_EQ(result.grants->refused_plans.size(), 1U);
    EXPECT_EQ(result.grants->refused_plans[0].times, 2) << "once between two reviews";
    EXPECT_EQ(result.grants->refused_plans[0].at_s, 1);
    EXPECT_TRUE(result.grants->refused_plans[0].losses.contains(0));
}

}  // namespace
}  // namespace cohort
