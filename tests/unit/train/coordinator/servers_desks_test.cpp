// What the coordinator's flow of updates with servers keeps its books in, each by itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "sched/session/lease_dispatcher.hpp"
#include "train/coordinator/servers/node_aggregation.hpp"
#include "train/coordinator/servers/push_arrivals.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Node 1 has ranks 1 and 3, the workers 0 and 2; node 0 the server and the workers 1 and 3.
TEST(NodeAggregation, SaysWhatIsLostWithTheLastWorkerOfANode) {
    RankMap map{.servers = 1};
    for (int rank = 0; rank < 5; ++rank) {
        map.ranks.push_back(
            {.rank = rank, .node = rank % 2, .role = rank == 0 ? Role::kServer : Role::kWorker});
    }
    NodeAggregation desk(map, {false, true});
    const PushId pending{.worker = 0, .incarnation = 0, .sequence = 2};
    const PushId fired{.worker = 2, .incarnation = 0, .sequence = 1};
    desk.arrived({.ticket = {.id = pending}, .slot = 0});
    desk.arrived({.ticket = {.id = fired}, .slot = 0});
    FireOrder order;
    order.update.version = 1;
    order.update.terms = {{.push = fired, .coefficient = 1}};
    ASSERT_EQ(desk.split(order).sums.size(), 1U);

    const NodeAggregation::Orders first = desk.lost(0);
    EXPECT_EQ(first.sums.size(), 1U) << "worker 2 makes it again";
    EXPECT_THAT(first.gone, IsEmpty());
    EXPECT_THAT(first.stranded, IsEmpty());
    NodeAggregation at_the_end = desk;
    EXPECT_EQ(at_the_end.lost_at_the_end(2).gone.size(), 1U);
    const NodeAggregation::Orders last = desk.lost(2);
    EXPECT_THAT(last.sums, IsEmpty());
    ASSERT_EQ(last.gone.size(), 1U);
    EXPECT_TRUE(same_push(last.gone.front(), node_sum(1, 1)));
    EXPECT_THAT(last.stranded, ElementsAre(pending));
}

TEST(PushArrivals, AreCompleteWithTheReportAndANoteOfEveryServer) {
    PushArrivals arrivals(2);
    const PushId push{.worker = 1, .incarnation = 0, .sequence = 4};
    const auto at = [](double seconds) { return Clock::Seconds(seconds); };
    EXPECT_FALSE(arrivals.staged(
        {.push = push, .server = 1, .reference_dot = 2, .reference_squares = 9}, at(1)));
    EXPECT_FALSE(arrivals.reported({.ticket = {.id = push, .lease = 7}}, at(2)));
    EXPECT_FALSE(arrivals.staged({.push = {.worker = 0, .incarnation = 0, .sequence = 4}}, at(2)));
    const auto complete = arrivals.staged(
        {.push = push, .server = 0, .reference_dot = -1, .reference_squares = 16}, at(2.5));
    ASSERT_TRUE(complete);
    EXPECT_EQ(complete->report.ticket.lease, 7U);
    EXPECT_DOUBLE_EQ(complete->report.ticket.reference_dot, 1);
    EXPECT_DOUBLE_EQ(complete->report.ticket.reference_norm, 5);
    EXPECT_DOUBLE_EQ(complete->sending_s, 0.5);
    EXPECT_EQ(complete->before_s, 0);
    const PushId next{.worker = 1, .incarnation = 0, .sequence = 5};
    EXPECT_FALSE(arrivals.reported({.ticket = {.id = next}}, at(3)));
    EXPECT_FALSE(arrivals.staged({.push = next, .server = 0}, at(3)));
    EXPECT_DOUBLE_EQ(arrivals.staged({.push = next, .server = 1}, at(4))->before_s, 0.5);
    const PushId anew{.worker = 1, .incarnation = 1, .sequence = 6};
    EXPECT_EQ(arrivals.reported({.ticket = {.id = anew}, .slot = 0}, at(5))->before_s, 0)
        << "it began anew";
    EXPECT_THAT(arrivals.drop(1), IsEmpty());
    EXPECT_EQ(arrivals.drop(0).size(), 1U);
    EXPECT_EQ(arrivals.incomplete(), 0U);
}

TEST(ValidationSampler, GivesWorkersTurnsEverySoManyDecisions) {
    ValidationSampler desk(3, 200, 16);
    const std::vector<bool> may{true, false, true};
    EXPECT_FALSE(desk.deal(may, 0)) << "the plan does not validate";
    desk.set_every(2);
    EXPECT_FALSE(desk.deal({false, false, false}, 0));
    std::vector<int> workers;
    std::set<std::int64_t> positions;
    for (int decision = 0; decision < 8; ++decision) {
        if (const auto dealt = desk.deal(may, 1)) {
            workers.push_back(dealt->worker);
            positions.insert(dealt->position);
            EXPECT_NE(dealt->lease & ValidationSampler::kBit, 0U);
            EXPECT_EQ(dealt->count, 16);
            EXPECT_LE(dealt->position + dealt->count, 200);
        }
        desk.decided();
    }
    EXPECT_THAT(workers, ElementsAre(2, 0, 2, 0)) << "the first at once";
    EXPECT_EQ(positions.size(), 4U);
}

}  // namespace
}  // namespace cohort
