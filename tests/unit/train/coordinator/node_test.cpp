// Gradients of one host that go to the servers as one sum.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <thread>

#include "cohort/core/error.hpp"
#include "support/core/patience.hpp"
#include "support/train/local_network.hpp"
#include "support/train/server_pushes.hpp"
#include "train/coordinator/servers/node_aggregation.hpp"
#include "train/worker/node_staging.hpp"
#include "train/worker/servers/push_buffers.hpp"

namespace cohort {
namespace {

using test::make_push;
using test::ShardGroup;
using test::TestPush;
using testing::ElementsAre;
using testing::IsEmpty;

/// `servers` servers, then workers on nodes.
RankMap map_of(int servers, const std::vector<int>& nodes) {
    RankMap map;
    map.servers = servers;
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
        map.ranks.push_back({.rank = static_cast<int>(rank),
                             .host = "h" + std::to_string(nodes[rank]),
                             .pid = getpid(),
                             .node = nodes[rank]});
    }
    return map;
}

SyncPlan plan_of(int workers, int quorum) {
    SyncPlan plan;
    plan.cohorts.emplace_back();
    for (int worker = 0; worker < workers; ++worker) {
        plan.cohorts[0].members.push_back(worker);
    }
    plan.cohorts[0].quorum = quorum;
    return plan;
}

TEST(NodeStaging, IsForNodesWithSeveralWorkersAndNoServer) {
    const RankMap map = map_of(1, {0, 0, 0, 1, 1, 2});
    EXPECT_THAT(staging_nodes(map, NodeStaging::kAuto, false), ElementsAre(false, true, false));
    EXPECT_THAT(staging_nodes(map, NodeStaging::kOn, false), ElementsAre(true, true, false));
    EXPECT_THAT(staging_nodes(map, NodeStaging::kOff, false), ElementsAre(false, false, false));
    EXPECT_THAT(staging_nodes(map, NodeStaging::kAuto, true), ElementsAre(false, false, false));
    EXPECT_THAT(staging_nodes(map, NodeStaging::kOn, true), ElementsAre(true, true, false));
    EXPECT_THAT(staging_nodes(map_of(0, {0, 0}), NodeStaging::kOn, false), ElementsAre(false));
}

TEST(NodeSlots, AreUsedAgainWhenNoServerNeedsTheSum) {
    NodeSlots slots(100);
    const PushId first{0, 0, 1};
    const PushId second{0, 0, 2};
    EXPECT_EQ(slots.find_free(0), 0);
    slots.use(0, first);
    EXPECT_EQ(slots.find_free(0), 1);
    slots.use(1, second);
    EXPECT_EQ(slots.find_free(100), std::nullopt);
    const SlotMemory seen = SlotMemory::open(getpid(), slots.descriptor(), 100);
    slots.values(0)[99] = 7;
    slots.values(1)[0] = 8;
    EXPECT_EQ(seen.values(0)[99], 7);
    EXPECT_EQ(seen.values(1)[0], 8);
    seen.set_free(1, first, 0);  // of an earlier use
    EXPECT_EQ(slots.find_free(100), std::nullopt);
    seen.set_free(0, first, 5);
    EXPECT_EQ(slots.find_free(4), std::nullopt) << "a server may lack the sum of version 5";
    EXPECT_EQ(slots.find_free(5), 0);
    slots.use(0, {0, 1, 1});
    EXPECT_EQ(slots.find_free(5), std::nullopt) << "another incarnation's first push";
    slots.give_back(0);
    EXPECT_EQ(slots.find_free(0), 0);
}

class Aggregation : public testing::Test {
protected:
    /// Workers 0, 1, 2 on node 1, worker 3 on node 2.
    RankMap map_ = map_of(1, {0, 1, 1, 1, 2});
    NodeAggregation desk_{map_, {false, true, false}};

    /// @param slot -1: straight to the servers
    UpdateTerm push(int worker, std::uint64_t sequence, double coefficient, int slot,
                    std::int64_t version = 0) {
        const PushId id{worker, 0, sequence};
        desk_.arrived({.ticket = {.id = id, .version = version}, .slot = slot});
        return {.push = id, .coefficient = coefficient, .version = version};
    }
};

TEST_F(Aggregation, StagesWhereSeveralPushesMakeAnUpdate) {
    EXPECT_TRUE(desk_.stages(0, plan_of(4, 4)));
    EXPECT_TRUE(desk_.stages(2, plan_of(4, 2)));
    EXPECT_FALSE(desk_.stages(3, plan_of(4, 4))) << "alone on its node";
    EXPECT_FALSE(desk_.stages(0, plan_of(4, 1))) << "every push is an update";
    SyncPlan plan = plan_of(4, 4);
    plan.release = SyncPlan::Release::kOnArrival;
    EXPECT_FALSE(desk_.stages(0, plan));
    plan = plan_of(4, 4);
    plan.delay_compensation = 0.1;
    EXPECT_FALSE(desk_.stages(0, plan));
    plan = plan_of(4, 4);
    plan.validate_every = 5;
    EXPECT_FALSE(desk_.stages(0, plan));
    (void)desk_.lost(0);
    EXPECT_TRUE(desk_.stages(1, plan_of(4, 4)));
    (void)desk_.lost(2);
    EXPECT_FALSE(desk_.stages(1, plan_of(4, 4))) << "nobody left to share with";
    (void)desk_.joined(0);
    EXPECT_TRUE(desk_.stages(1, plan_of(4, 4)));
}

TEST_F(Aggregation, PutsAMeanOfTheWeightOfItsPartsInTheirPlace) {
    FireOrder order{.update = {.version = 7}};
    order.update.terms = {push(0, 1, 0.125, 1), push(3, 1, 0.5, -1), push(2, 1, 0.375, 0)};
    const NodeAggregation::Orders orders = desk_.split(order);
    ASSERT_EQ(order.update.terms.size(), 2U);
    EXPECT_EQ(order.update.terms[0].push, (PushId{3, 0, 1}));
    EXPECT_EQ(order.update.terms[1].push, node_sum(1, 7));
    EXPECT_EQ(order.update.terms[1].coefficient, 0.5);
    ASSERT_EQ(orders.sums.size(), 1U);
    EXPECT_THAT(orders.gone, IsEmpty());
    const auto& [rank, sum] = orders.sums[0];
    EXPECT_EQ(rank, 1) << "the node's lowest worker rank";
    EXPECT_EQ(sum.sum, node_sum(1, 7));
    ASSERT_EQ(sum.terms.size(), 2U);
    EXPECT_EQ(sum.terms[0].push, (PushId{0, 0, 1}));
    EXPECT_EQ(sum.terms[0].slot, 1);
    EXPECT_EQ(sum.terms[0].coefficient, 0.25);
    EXPECT_EQ(sum.terms[1].slot, 0);
    EXPECT_EQ(sum.terms[1].coefficient, 0.75);
}

TEST_F(Aggregation, UpdatesWithoutStagedPushesStayAsTheyAre) {
    FireOrder order{.update = {.version = 1}};
    order.update.terms = {push(0, 1, 0.5, -1), push(3, 1, 0.5, -1)};
    const NodeAggregation::Orders orders = desk_.split(order);
    EXPECT_THAT(orders.sums, IsEmpty());
    EXPECT_EQ(order.update.terms.size(), 2U);
}

TEST_F(Aggregation, ARefusedPushFreesItsSlot) {
    const UpdateTerm staged = push(1, 4, 1, 1);
    const auto order = desk_.discard(staged.push);
    ASSERT_TRUE(order);
    EXPECT_EQ(order->first, 2) << "its own rank";
    EXPECT_EQ(order->second.slot, 1);
    EXPECT_FALSE(desk_.discard(staged.push)) << "once";
    EXPECT_FALSE(desk_.discard(push(1, 5, 1, -1).push)) << "on the servers";
}

TEST_F(Aggregation, AnotherWorkerMakesWhatALostHeadMayNotHaveMade) {
    for (std::uint64_t round = 1; round <= 3; ++round) {
        FireOrder order;
        order.update.version = static_cast<std::int64_t>(round);
        order.update.terms = {push(1, round, 1, 0)};
        EXPECT_EQ(desk_.split(order).sums.at(0).first, 1);
    }
    (void)push(3, 9, 1, -1, 1);  // computed on version 1: no server lacks a sum for it
    NodeAggregation::Orders again = desk_.lost(0);
    ASSERT_EQ(again.sums.size(), 2U);
    EXPECT_EQ(again.sums[0].first, 2);
    EXPECT_EQ(again.sums[0].second.sum, node_sum(1, 2, 1));
    EXPECT_EQ(again.sums[1].second.sum, node_sum(1, 3, 1));
    EXPECT_EQ(again.sums[1].second.terms.at(0).push, (PushId{1, 0, 3}));
    EXPECT_THAT(desk_.lost(2).sums, IsEmpty()) << "it had none to make";
    const NodeAggregation::Orders gone = desk_.lost(1);
    EXPECT_THAT(gone.sums, IsEmpty());
    EXPECT_THAT(gone.gone, ElementsAre(node_sum(1, 2, 2), node_sum(1, 3, 2)));
}

TEST_F(Aggregation, WhatLiesOnALostNodeIsGone) {
    FireOrder order{.update = {.version = 1}};
    order.update.terms = {push(0, 1, 0.5, 0), push(3, 1, 0.5, -1)};
    for (const int worker : {0, 1, 2}) {
        (void)desk_.lost(worker);
    }
    const NodeAggregation::Orders orders = desk_.split(order);
    EXPECT_THAT(orders.gone, ElementsAre(node_sum(1, 1)));
    EXPECT_EQ(order.update.terms.size(), 2U) << "it is ordered, and discarded: the version counts";
}

/// Agents of three workers on one node in this process; the test is coordinator and servers.
class Agents : public testing::TestWithParam<int> {
protected:
    static constexpr int kWorkers = 3;
    struct Sink final : TransferSink {
        std::span<std::byte> accept(const Message& /*announcement*/, std::uint64_t bytes) override {
            values.resize(bytes / sizeof(float));
            return std::as_writable_bytes(std::span(values));
        }
        std::vector<float> values;
    };

    Agents() : network_(GetParam() + kWorkers, GetParam()) {
        for (int server = 0; server < GetParam(); ++server) {
            sinks_.push_back(std::make_unique<Sink>());
            network_.messenger(server).set_sink(Port::kServer, sinks_.back().get());
        }
        for (int worker = 0; worker < kWorkers; ++worker) {
            const int rank = network_.map().rank_of_worker(worker);
            comm_.push_back(std::make_unique<CommContext>(
                CommContext{network_.messenger(rank), network_.operations(rank), network_.map()}));
            slots_.push_back(std::make_unique<NodeSlots>(layout_.floats()));
        }
    }
    void start(int worker) {
        const auto at = static_cast<std::size_t>(worker);
        agents_[worker] =
            std::make_unique<NodeAgent>(*comm_[at], layout_, worker, slots_[at]->descriptor());
    }
    void stage(const TestPush& push, int slot) {
        const auto worker = static_cast<std::size_t>(push.id.worker);
        slots_[worker]->use(slot, push.id);
        const PushWriter to(slots_[worker]->values(slot));
        to.put(0, push.gradient);
        to.put_state(push.batch);
    }
    template <class Body>
    void order(int worker, NodeMessage kind, const Body& body) {
        network_.messenger(0).send({network_.map().rank_of_worker(worker), Port::kNode},
                                   Port::kCoordinator, static_cast<std::uint16_t>(kind),
                                   encode(body));
    }

    Graph graph_ = test::server_graph();
    ShardedLayout layout_{cut_shards(graph_, GetParam())};
    test::LocalNetwork network_;
    std::vector<std::unique_ptr<Sink>> sinks_;
    std::vector<std::unique_ptr<CommContext>> comm_;
    std::vector<std::unique_ptr<NodeSlots>> slots_;
    std::map<int, std::unique_ptr<NodeAgent>> agents_;
};

/// The servers take it as a push; parameters equal those of direct pushes to rounding.
TEST_P(Agents, ASumUpdatesAsItsPartsDo) {
    start(0);
    std::vector<TestPush> pushes;
    NodeSumOrder sum{.sum = node_sum(0, 1), .terms = {}, .layout = layout_of(0, layout_.shards())};
    const double weights[] = {0.5, 0.25, 0.25};
    for (std::int32_t worker = 0; worker < kWorkers; ++worker) {
        pushes.push_back(
            make_push(graph_, {worker, 0, 1}, weights[worker], static_cast<std::uint64_t>(worker)));
        stage(pushes.back(), worker % 2);
        sum.terms.push_back({pushes.back().id, worker % 2, weights[worker]});
    }
    order(0, NodeMessage::kSum, sum);  // before the head knows of all memory
    start(1);
    start(2);
    ShardGroup direct(graph_, GetParam(), {});
    direct.update(pushes, test::fire_order(1, pushes));
    ShardGroup staged(graph_, GetParam(), {});
    for (int server = 0; server < GetParam(); ++server) {
        const auto message =
            network_.messenger(server).mailbox(Port::kServer).receive(test::kPatience);
        ASSERT_TRUE(message);
        EXPECT_EQ(message->kind, static_cast<std::uint16_t>(MessageKind::kPush));
        EXPECT_EQ(decode<PushHeader>(message->body).push, sum.sum);
        ServerShard& shard = staged.shard(static_cast<std::size_t>(server));
        const std::vector<float>& values = sinks_[static_cast<std::size_t>(server)]->values;
        ASSERT_EQ(static_cast<std::int64_t>(values.size()), shard.range().floats());
        const auto bytes = std::as_bytes(std::span(values));
        const auto to = shard.staging().accept(*message, bytes.size());
        std::copy(bytes.begin(), bytes.end(), to.begin());
        ASSERT_TRUE(shard.staging().arrived(sum.sum));
        FireOrder order;
        order.update = {.version = 1, .fraction = 1, .learning_rate = 0.05};
        order.update.terms = {{.push = sum.sum, .coefficient = 1}};
        test::fire(shard, order);
    }
    const std::vector<float> wanted = direct.parameters();
    const std::vector<float> got = staged.parameters();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_NEAR(got[i], wanted[i], 1e-5 * (1 + std::abs(wanted[i]))) << i;
    }
    for (std::size_t i = 0; i < direct.state().size(); ++i) {
        EXPECT_NEAR(staged.state()[i], direct.state()[i], 1e-5);
    }
    agents_.clear();
    EXPECT_EQ(slots_[1]->find_free(0), 0) << "the other one";
    slots_[1]->use(0, {1, 0, 2});
    EXPECT_EQ(slots_[1]->find_free(0), std::nullopt);
    EXPECT_EQ(slots_[1]->find_free(1), 1) << "its push is part of version 1";
}

INSTANTIATE_TEST_SUITE_P(, Agents, testing::Values(1, 2, 3));

class OneServer : public Agents {};

TEST_P(OneServer, FreesSlotsAndFailsWithAMessage) {
    start(0);
    slots_[0]->use(0, {0, 0, 1});
    slots_[0]->use(1, {0, 0, 2});
    order(0, NodeMessage::kFree, NodeFreeOrder{.push = {0, 0, 2}, .slot = 1});
    agents_.clear();
    EXPECT_EQ(slots_[0]->find_free(0), 1);
    start(1);
    order(1, static_cast<NodeMessage>(77), Empty{});
    while (true) {
        try {
            agents_.at(1)->check();
        } catch (const PeerError& error) {
            EXPECT_THAT(error.what(), testing::HasSubstr("77"));
            break;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

INSTANTIATE_TEST_SUITE_P(, OneServer, testing::Values(1));

}  // namespace
}  // namespace cohort
