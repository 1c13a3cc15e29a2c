// Trees that gradients take to the servers: times on paper, the best tree, and what users write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>

#include "cohort/core/error.hpp"
#include "sched/plan/push_tree.hpp"
#include "support/core/message_of.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kTop = PushTree::kServers;
constexpr double kBytes = 32e6;
constexpr double kRate = 1e9;
constexpr double kPush = kBytes / kRate;  // seconds over a card
constexpr double kLatency = 1e-4;

/// Equal nodes of one worker, and one server behind them on a node of its own.
TreeCosts costs_of(int nodes, double latency = kLatency) {
    TreeCosts costs;
    costs.nodes.assign(static_cast<std::size_t>(nodes), {.up = kRate, .down = kRate, .workers = 1});
    costs.nodes.push_back({.up = kRate, .down = kRate, .servers = 1});
    costs.bytes = kBytes;
    costs.latency_s = latency;
    return costs;
}

TEST(PushTree, ParentsLeadToTheServers) {
    const PushTree tree({1, kTop, 1, 0, kTop}, 4, true);
    EXPECT_THAT(tree.from_the_top(), ElementsAre(1, 4, 0, 2, 3));
    EXPECT_EQ(tree.levels(), 3);
    EXPECT_FALSE(tree.flat());
    EXPECT_TRUE(PushTree(3).flat());
    const auto refused = [](std::vector<int> parents) {
        return test::message_of<UsageError>([&] { (void)PushTree(parents, 1, false); });
    };
    EXPECT_THAT(refused({1, 2, 0, kTop}), HasSubstr("node 0 does not reach"));
    EXPECT_THAT(refused({kTop, 1}), HasSubstr("node 1"));
    EXPECT_THAT(refused({kTop, 2}), HasSubstr("no other node"));
    EXPECT_THAT(refused({-2}), HasSubstr("no other node"));
}

/// 0 and 1 are heads; 2, 3 below 0; 4 below 1; 5, 6 below 4.
TEST(PushTree, SumsGoPastNodesThatHaveNothingToAdd) {
    const PushTree tree({kTop, kTop, 0, 0, 1, 4, 4}, 1, false);
    constexpr int kNo = PushTree::kNobody;
    const std::vector<bool> all(7, true);
    EXPECT_THAT(tree.route(all), ElementsAre(kTop, kTop, 0, 0, 1, 4, 4));
    EXPECT_THAT(tree.route({false, false, true, false, false, true, true}),
                ElementsAre(kNo, kNo, kTop, kNo, kTop, 4, 4))
        << "one sum goes past 0 and 1; 4 joins two";
    EXPECT_THAT(tree.route(all, {false, true, true, true, false, true, true}),
                ElementsAre(kNo, kTop, kTop, kTop, kNo, 1, 1))
        << "children of nodes that are gone go on to their parents";
}

/// One worker a node, so that pulls down a star take as long as flat ones.
TEST(PushTree, TimesOfTwoAndThreeLevelsAreThoseOnPaper) {
    TreeCosts costs = costs_of(6);
    const double pull = 6 * kPush + kLatency;
    const PushTree star(7);
    EXPECT_NEAR(round_seconds(star, costs), 6 * kPush + kLatency + pull, 1e-9);
    const PushTree two({kTop, kTop, 0, 0, 1, 1, kTop}, 1, false);
    EXPECT_NEAR(round_seconds(two, costs), 2 * kPush + 2 * kPush + 2 * kLatency + pull, 1e-9);
    const PushTree pieces({kTop, kTop, 0, 0, 1, 1, kTop}, 8, false);
    EXPECT_NEAR(round_seconds(pieces, costs), (2 + 7) * (2 * kPush / 8 + kLatency) + pull, 1e-9);
    const PushTree three({kTop, 0, 1, 0, 1, 1, kTop}, 1, true);  // fan-in 1, 2, 3
    EXPECT_NEAR(round_seconds(three, costs), 2 * ((1 + 2 + 3) * kPush + 3 * kLatency), 1e-9);
    const PushTree chain({kTop, 0, 1, 2, 3, 4, kTop}, 16, true);
    EXPECT_NEAR(round_seconds(chain, costs), 2 * (6 + 15) * (kPush / 16 + kLatency), 1e-9);
    costs.sum_s = 2 * kPush;  // to sum takes longer than to send
    costs.server_sum_s = 0.25;
    costs.local_s = 0.5;
    EXPECT_NEAR(round_seconds(two, costs),
                (2 + 4) * costs.sum_s + 2 * kLatency + 2 * costs.server_sum_s + pull, 1e-9);
    EXPECT_NEAR(
        round_seconds(three, costs),
        (2 + 5 + 4) * costs.sum_s + costs.server_sum_s + 6 * kLatency + 6 * kPush + costs.local_s,
        1e-9);
}

TEST(PushTree, SlowCardsHoldUpTheirLevel) {
    TreeCosts costs = costs_of(4, 0);
    costs.nodes[3].up = kRate / 5;
    const double pull = 4 * kPush;
    EXPECT_NEAR(round_seconds(PushTree(5), costs), 5 * kPush + pull, 1e-9);
    EXPECT_NEAR(round_seconds(PushTree({kTop, kTop, 0, 0, kTop}, 1, false), costs),
                (5 + 2) * kPush + pull, 1e-9);
    costs.nodes[4].servers = 2;  // two servers behind one card
    EXPECT_NEAR(round_seconds(PushTree(5), costs), 5 * kPush + pull, 1e-9);
}

/// All trees over so many nodes, each with whole pushes and in pieces, parameters straight or down.
double best_of_all(const TreeCosts& costs, int nodes) {
    double best = 1e300;
    std::vector<int> parents(static_cast<std::size_t>(nodes) + 1, kTop);
    const std::function<void(int)> choose = [&](int node) {
        if (node == nodes) {
            try {
                for (const int pieces : {1, 2, 4, 8, 16}) {
                    for (const bool down : {false, true}) {
                        best = std::min(best, round_seconds({parents, pieces, down}, costs));
                    }
                }
            } catch (const UsageError&) {  // a circle
            }
            return;
        }
        for (int parent = kTop; parent < nodes; ++parent) {
            if (parent != node) {
                parents[static_cast<std::size_t>(node)] = parent;
                choose(node + 1);
            }
        }
    };
    choose(0);
    return best;
}

TEST(PushTree, IsWithinFewPercentOfTheBestOfAllTrees) {
    std::mt19937 random(5);
    std::uniform_real_distribution<double> any(0, 1);
    double worst = 1;
    for (int round = 0; round < 20; ++round) {
        const int nodes = 2 + round % 5;
        TreeCosts costs = costs_of(nodes, 1e-3 * any(random));
        for (TreeCosts::Node& node : costs.nodes) {
            node.up *= 0.1 + any(random);
            node.down *= 0.1 + any(random);
            node.workers *= 1 + static_cast<int>(3 * any(random));
        }
        costs.sum_s = kPush * any(random) * 0.3;
        costs.local_s = kPush * 0.1;
        const double found = round_seconds(build_push_tree(costs), costs);
        worst = std::max(worst, found / best_of_all(costs, nodes));
    }
    EXPECT_LE(worst, 1.03);
}

TEST(PushTree, IsFlatWhereNothingIsGained) {
    EXPECT_TRUE(build_push_tree(costs_of(1)).flat());
    EXPECT_TRUE(build_push_tree(costs_of(2, 1.0)).flat()) << "latency is all that counts";
    TreeCosts shared = costs_of(8);  // a server beside every worker: each card carries one push
    shared.nodes.pop_back();
    for (TreeCosts::Node& node : shared.nodes) {
        node.servers = 1;
    }
    EXPECT_TRUE(build_push_tree(shared).flat());
}

/// Whoever has little left to send with, or receive with, serves nobody.
TEST(PushTree, HeadsAreThoseWithTheMostLeft) {
    for (const int nodes : {16, 200}) {
        TreeCosts costs = costs_of(nodes);
        for (int node = 0; node < nodes; node += 2) {
            costs.nodes[static_cast<std::size_t>(node)].up = kRate / 10;
        }
        const PushTree tree = build_push_tree(costs);
        ASSERT_FALSE(tree.flat());
        EXPECT_TRUE(tree.down());
        std::vector<int> children(costs.nodes.size(), 0);
        for (const int parent : tree.parents()) {
            if (parent != kTop) {
                EXPECT_EQ(parent % 2, 1) << nodes;
                ++children[static_cast<std::size_t>(parent)];
            }
        }
        const int most = *std::ranges::max_element(children);
        EXPECT_LT(most * kPush, nodes * kPush / 4) << "no card takes the servers' place";
        EXPECT_LT(round_seconds(tree, costs), 0.5 * round_seconds(PushTree(nodes + 1), costs));
    }
}

TEST(PushTree, IsRebuiltWhenACardDiffersByMoreThanTheMargin) {
    PushTreePlanner planner;
    TreeCosts costs = costs_of(16);
    EXPECT_TRUE(planner.update(costs));
    const PushTree first = planner.tree();
    const auto head = static_cast<std::size_t>(
        *std::ranges::find_if(first.parents(), [](int parent) { return parent != kTop; }));
    costs.nodes[head].up *= 1 - PushTreePlanner::kMargin / 2;
    EXPECT_FALSE(planner.update(costs));
    costs.nodes[head].up = kRate / 20;
    EXPECT_TRUE(planner.update(costs));
    EXPECT_FALSE(planner.tree().flat());
    for (int more = 0; more < 10; ++more) {  // the forecast comes nearer and nearer
        (void)planner.update(costs);
    }
    EXPECT_THAT(planner.tree().parents(), testing::Not(testing::Contains(static_cast<int>(head))));
}

TEST(PushTreeChoice, SaysWhatGroupsCannotBeUsed) {
    EXPECT_FALSE(parse_push_tree("off").on());
    EXPECT_EQ(parse_push_tree("auto").kind, PushTreeChoice::Kind::kAuto);
    const PushTreeChoice groups = parse_push_tree("0,1,2/4,3");
    EXPECT_THAT(tree_of_groups(groups, {1, 1, 1, 1, 1, 0}).parents(),
                ElementsAre(kTop, 0, 0, 4, kTop, kTop));
    EXPECT_FALSE(tree_of_groups(groups, {1, 1, 1, 1, 1}).down());
    const auto refused = [](const std::string& text) {
        return test::message_of<UsageError>([&] { (void)parse_push_tree(text); });
    };
    EXPECT_THAT(refused("0,1//2"), HasSubstr("a group is empty"));
    EXPECT_THAT(refused(""), HasSubstr("a group is empty"));
    EXPECT_THAT(refused("0,1/2,"), HasSubstr("'' in '2,'"));
    EXPECT_THAT(refused("0,1/2,1"), HasSubstr("node 1"));
    EXPECT_THAT(refused("0,-1"), HasSubstr("'-1'"));
    EXPECT_THAT(refused("0,one"), HasSubstr("'one' in '0,one'"));
    for (const std::vector<int>& workers : {std::vector{1, 1, 1, 1}, {1, 1, 0, 1, 1}}) {
        EXPECT_THAT(test::message_of<UsageError>([&] { (void)tree_of_groups(groups, workers); }),
                    HasSubstr("unknown or has no workers"));
    }
}

}  // namespace
}  // namespace cohort
