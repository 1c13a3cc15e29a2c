// Sums of nodes that travel over a tree: who is told to make them, and the bits that servers get.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "cohort/core/error.hpp"
#include "support/core/message_of.hpp"
#include "support/core/patience.hpp"
#include "support/train/local_network.hpp"
#include "support/train/server_pushes.hpp"
#include "train/coordinator/servers/node_aggregation.hpp"
#include "train/coordinator/servers/node_cards.hpp"
#include "train/worker/node_staging.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kTop = PushTree::kServers;
constexpr int kServers = 2;
constexpr int kPieces = 4;

/// Node 0 has the servers, each other node two workers: worker 2 n - 2 and 2 n - 1 on node n.
RankMap map_of(int nodes) {
    RankMap map;
    map.servers = kServers;
    for (int rank = 0; rank < kServers + 2 * (nodes - 1); ++rank) {
        const int node = rank < kServers ? 0 : 1 + (rank - kServers) / 2;
        map.ranks.push_back({.rank = rank,
                             .host = "h" + std::to_string(node),
                             .pid = getpid(),
                             .node = node,
                             .role = rank < kServers ? Role::kServer : Role::kWorker});
    }
    return map;
}

/// Node 1 is the head of 2 and 3, which is the head of 4 and 5.
PushTree tree_of_six() {
    return {{kTop, kTop, 1, 1, 3, 3}, kPieces, false};
}

class TreeOrders : public testing::Test {
protected:
    TreeOrders() { desk_.use_tree(tree_of_six()); }
    FireOrder fire(std::int64_t version, const std::vector<int>& workers) {
        FireOrder order;
        order.update.version = version;
        for (const int worker : workers) {
            const PushId id{worker, 0, static_cast<std::uint64_t>(version)};
            desk_.arrived({.ticket = {.id = id, .version = version - 1}, .slot = 0});
            order.update.terms.push_back(
                {.push = id, .coefficient = 0.125, .version = version - 1});
        }
        return order;
    }
    static const NodeSumOrder& order_to(const NodeAggregation::Orders& orders, int rank) {
        const auto found =
            std::ranges::find(orders.sums, rank, &std::pair<int, NodeSumOrder>::first);
        return found == orders.sums.end() ? throw std::logic_error("no order") : found->second;
    }
    /// World rank of the first worker of a node.
    static int first(int node) { return kServers + 2 * (node - 1); }

    RankMap map_ = map_of(6);
    NodeAggregation desk_{map_, std::vector<bool>(6, false)};
};

TEST_F(TreeOrders, FollowTheTree) {
    FireOrder order = fire(1, {0, 1, 2, 4, 6, 7, 8, 9});
    const NodeAggregation::Orders orders = desk_.split(order);
    ASSERT_EQ(order.update.terms.size(), 1U);
    EXPECT_EQ(order.update.terms[0].push, node_sum(1, 1));
    EXPECT_EQ(order.update.terms[0].coefficient, 1.0);
    ASSERT_EQ(orders.sums.size(), 5U);
    const NodeSumOrder& top = order_to(orders, first(1));
    EXPECT_EQ(top.sum, node_sum(1, 1));
    EXPECT_EQ(top.to, -1);
    ASSERT_EQ(top.inputs.size(), 2U);
    EXPECT_EQ(top.inputs[0].sum, node_sum(2, 1));
    EXPECT_EQ(top.inputs[1].rank, first(3));
    EXPECT_EQ(top.terms.size(), 2U);
    EXPECT_EQ(top.terms[0].coefficient, 0.125);
    EXPECT_EQ(order_to(orders, first(5)).to, first(3));
    EXPECT_EQ(order_to(orders, first(3)).top, node_sum(1, 1));
}

TEST_F(TreeOrders, GoPastHeadsWithoutAPart) {
    FireOrder order = fire(1, {2, 6, 8});  // nodes 2, 4, 5
    const NodeAggregation::Orders orders = desk_.split(order);
    ASSERT_EQ(order.update.terms.size(), 1U);
    EXPECT_EQ(orders.sums.size(), 5U) << "3 joins 4 and 5; 1 joins that with 2";
    EXPECT_THAT(order_to(orders, first(3)).terms, IsEmpty());
    FireOrder two = fire(2, {6, 8});
    const NodeAggregation::Orders less = desk_.split(two);
    EXPECT_EQ(less.sums.size(), 3U);
    EXPECT_EQ(two.update.terms.at(0).push, node_sum(3, 2)) << "past node 1";
    EXPECT_TRUE(desk_.stages(8, [] {
        SyncPlan plan;
        plan.cohorts = {{.members = {0, 8}, .quorum = 2}};
        return plan;
    }()));
}

TEST_F(TreeOrders, OthersTakeThePlaceOfALostHead) {
    FireOrder order = fire(1, {0, 2, 4, 6, 8});
    (void)desk_.split(order);
    NodeAggregation::Orders again = desk_.lost(0);
    EXPECT_EQ(order_to(again, first(1) + 1).sum, node_sum(1, 1, 1)) << "the node's other worker";
    EXPECT_EQ(order_to(again, first(2)).to, first(1) + 1);
    again = desk_.lost(1);  // nobody left on node 1
    ASSERT_EQ(again.sums.size(), 4U);
    const NodeSumOrder& top = order_to(again, first(2));
    EXPECT_EQ(top.sum, node_sum(1, 1, 2)) << "its first child goes on with what servers wait for";
    EXPECT_EQ(top.to, -1);
    ASSERT_EQ(top.inputs.size(), 1U);
    EXPECT_EQ(top.inputs[0].sum, node_sum(3, 1, 2));
    EXPECT_EQ(order_to(again, first(4)).to, first(3));
    (void)desk_.lost(4);
    again = desk_.lost(5);  // node 3, between the others
    EXPECT_EQ(order_to(again, first(4)).to, first(2));
    for (const int worker : {2, 3, 6, 7, 8}) {
        (void)desk_.lost(worker);
    }
    again = desk_.lost(9);
    EXPECT_THAT(again.sums, IsEmpty());
    EXPECT_EQ(again.gone.size(), 1U);
    EXPECT_TRUE(same_push(again.gone[0], node_sum(1, 1)));
}

TEST_F(TreeOrders, EndWithTheRun) {
    FireOrder order = fire(1, {0, 4, 8});
    (void)desk_.split(order);
    const NodeAggregation::Orders end = desk_.lost_at_the_end(8);
    EXPECT_THAT(end.gone, ElementsAre(node_sum(1, 1)));
    EXPECT_EQ(end.drops.size(), 2U) << "nobody waits for the lost one's sum";
    const NodeAggregation::Orders back = desk_.joined(8);
    ASSERT_EQ(back.drops.size(), 1U);
    EXPECT_TRUE(back.drops[0].second.all);
}

/// Agents of all workers in this process; the test is coordinator and servers.
class TreeAgents : public TreeOrders {
protected:
    struct Sink final : TransferSink {
        std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override {
            std::vector<float>& values = sums[decode<PushHeader>(announcement.body).push];
            values.assign(bytes / sizeof(float), 0);
            return std::as_writable_bytes(std::span(values));
        }
        std::map<PushId, std::vector<float>> sums;
    };

    TreeAgents() : network_(map_.size(), kServers, 256) {
        for (int server = 0; server < kServers; ++server) {
            network_.messenger(server).set_sink(Port::kServer, &sinks_[server]);
        }
        for (int worker = 0; worker < map_.workers(); ++worker) {
            const int rank = map_.rank_of_worker(worker);
            comm_.push_back(std::make_unique<CommContext>(
                CommContext{network_.messenger(rank), network_.operations(rank), map_,
                            &network_.membership()}));
            slots_.push_back(std::make_unique<NodeSlots>(layout_.floats()));
        }
    }
    ~TreeAgents() override {
        for (const auto& [worker, agent] : agents_) {  // lost ones have orders that nobody needs
            const int rank = map_.rank_of_worker(worker);
            network_.messenger(rank).send({rank, Port::kNode}, Port::kCoordinator,
                                          static_cast<std::uint16_t>(NodeMessage::kDrop),
                                          encode(NodeDropOrder{.all = true}));
        }
    }
    void start(const std::vector<int>& workers) {
        for (const int worker : workers) {
            const auto at = static_cast<std::size_t>(worker);
            agents_[worker] = std::make_unique<NodeAgent>(*comm_[at], layout_, worker,
                                                          slots_[at]->descriptor(), kPieces);
        }
    }
    /// Gradients of all workers in their first slots. @param whole  small whole numbers
    void stage(bool whole) {
        std::mt19937 random(11);
        for (int worker = 0; worker < map_.workers(); ++worker) {
            const auto at = static_cast<std::size_t>(worker);
            slots_[at]->use(0, {worker, 0, 1});
            for (float& value : slots_[at]->values(0)) {
                value = whole ? static_cast<float>(static_cast<int>(random() % 2001) - 1000)
                              : static_cast<float>(random()) * 1e-9F - 2;
            }
        }
    }
    NodeAggregation::Orders split(FireOrder& order) {
        return desk_.split(order, layout_of(0, layout_.shards()));
    }
    void send(const NodeAggregation::Orders& orders) {
        for (const auto& [rank, order] : orders.sums) {
            network_.messenger(0).send({rank, Port::kNode}, Port::kCoordinator,
                                       static_cast<std::uint16_t>(NodeMessage::kSum),
                                       encode(order));
        }
    }
    /// Waits until all servers have the sum. @return it, as it lies in the layout
    std::vector<float> received(const PushId& sum) {
        std::vector<float> all;
        for (int server = 0; server < kServers; ++server) {
            Mailbox& mailbox = network_.messenger(server).mailbox(Port::kServer);
            while (!came_[server].contains(sum)) {  // sums come in any order
                const auto message = mailbox.receive(test::kPatience);
                if (!message) {
                    throw std::logic_error("the sum does not come");
                }
                came_[server].insert(decode<PushHeader>(message->body).push);
            }
            const std::vector<float>& part = sinks_[server].sums.at(sum);
            all.insert(all.end(), part.begin(), part.end());
        }
        return all;
    }
    /// Mean over workers, in order, without any tree. @param weight  of each
    std::vector<float> summed(const std::vector<int>& workers, float weight) {
        std::vector<SumTerm> terms;
        for (const int worker : workers) {
            terms.push_back({.values = slots_[static_cast<std::size_t>(worker)]->values(0).data(),
                             .coefficient = weight});
        }
        std::vector<float> sum(static_cast<std::size_t>(layout_.floats()));
        weighted_sum(terms, 0, sum.data(), layout_.floats());
        return sum;
    }

    Graph graph_ = test::server_graph();
    ShardedLayout layout_{cut_shards(graph_, kServers)};
    test::LocalNetwork network_;
    Sink sinks_[kServers];
    std::set<PushId> came_[kServers];
    std::vector<std::unique_ptr<CommContext>> comm_;
    std::vector<std::unique_ptr<NodeSlots>> slots_;
    std::map<int, std::unique_ptr<NodeAgent>> agents_;
};

/// Sums of whole numbers are exact in any order: nothing is lost, doubled or mixed up.
TEST_F(TreeAgents, WholeNumbersHaveTheBitsOfOneSum) {
    stage(true);
    start({0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    FireOrder order = fire(1, {0, 2, 3, 4, 6, 7, 8, 9});
    send(split(order));
    EXPECT_EQ(received(node_sum(1, 1)), summed({0, 2, 3, 4, 6, 7, 8, 9}, 0.125F));
}

TEST_F(TreeAgents, GiveTheSameBitsAgainAndWhenAnotherWorkerIsTheHead) {
    stage(false);
    start({1, 2, 3, 4, 5, 6, 7, 8, 9});  // 0, the head of all, is dead
    network_.membership().lose(map_.rank_of_worker(0), true);
    FireOrder order = fire(1, {1, 2, 4, 5, 6, 7, 8, 9});
    send(split(order));
    const NodeAggregation::Orders again = desk_.lost(0);
    send(again);
    const std::vector<float> sum = received(node_sum(1, 1, 1));
    send(desk_.lost(4));  // the head of 4 and 5; it lives, so its node makes the sum twice
    EXPECT_EQ(received(node_sum(1, 1, 2)), sum);
    const std::vector<float> plain = summed({1, 2, 4, 5, 6, 7, 8, 9}, 0.125F);
    for (std::size_t i = 0; i < sum.size(); ++i) {
        ASSERT_NEAR(sum[i], plain[i], 1e-5) << i;
    }
}

/// A whole node dies with its head: servers get the sum of the others from its child.
TEST_F(TreeAgents, ChildrenGoOnWithoutADeadNode) {
    stage(true);
    start({2, 3, 4, 5, 6, 7, 8, 9});
    for (const int worker : {0, 1}) {
        network_.membership().lose(map_.rank_of_worker(worker), true);
    }
    FireOrder order = fire(1, {0, 1, 2, 3, 4, 5, 6, 8});
    send(split(order));
    (void)desk_.lost(0);
    send(desk_.lost(1));
    EXPECT_EQ(received(node_sum(1, 1, 2)), summed({2, 3, 4, 5, 6, 8}, 0.125F));
    FireOrder next = fire(2, {2, 4, 6, 8});
    for (const int worker : {2, 4, 6, 8}) {
        auto& slots = *slots_[static_cast<std::size_t>(worker)];
        while (slots.find_free(1) != 0) {  // its push is in version 1
            std::this_thread::yield();
        }
        slots.use(0, {worker, 0, 2});
    }
    send(split(next));
    ASSERT_EQ(next.update.terms.size(), 2U) << "2 and 3 push to the servers themselves";
    EXPECT_EQ(received(node_sum(2, 2)), summed({2}, 1));
    std::vector<float> rest = summed({4, 6, 8}, 1.0F / 3);
    const std::vector<float> got = received(node_sum(3, 2));
    for (std::size_t i = 0; i < rest.size(); ++i) {
        ASSERT_NEAR(got[i], rest[i], 1e-3) << i;
    }
}

TEST(NodeCards, PlanByRates) {
    const RankMap map = map_of(12);
    NodeCards cards(map, "auto", 400e6);
    const PushTree first = cards.tree();
    ASSERT_FALSE(first.flat());
    const auto head =
        *std::ranges::find_if(first.parents(), [](int parent) { return parent >= 0; });
    bool changed = false;
    for (int round = 0; round < 4; ++round) {
        for (int worker = 0; worker < map.workers(); ++worker) {
            changed = cards.received(worker, 1 + worker / 2 == head ? 1e7 : 1e8) || changed;
        }
    }
    EXPECT_TRUE(changed);
    EXPECT_EQ(std::ranges::count(cards.tree().parents(), head), 0) << "a slow card serves nobody";
    // Where cards are as fast as memory, sums on the way cost more than they save.
    NodeCards fast(map, "auto", 400e6);
    for (int report = 0; report < 4 * map.workers(); ++report) {
        static_cast<void>(fast.received(report % map.workers(), 1e11));
    }
    EXPECT_NE(fast.tree(), first);
    EXPECT_TRUE(NodeCards(map, "off", 400e6).tree().flat());
    EXPECT_EQ(NodeCards(map, "3,4,5/7,8", 400e6).tree().parents()[5], 3);
    EXPECT_THAT(test::message_of<UsageError>([&] { NodeCards(map, "0,1", 1); }),
                HasSubstr("node 0 of 12"));
}

}  // namespace
}  // namespace cohort
