#include "sched/servers/shard_shares.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace cohort {
namespace {

std::vector<ServerSpeed> on_own_nodes(const std::vector<double>& whole_s, int first_node) {
    std::vector<ServerSpeed> servers;
    for (const double seconds : whole_s) {
        servers.push_back({.node = first_node++, .whole_s = seconds});
    }
    return servers;
}

std::vector<int> each_on_its_node(int workers) {
    std::vector<int> nodes(static_cast<std::size_t>(workers));
    std::iota(nodes.begin(), nodes.end(), 0);
    return nodes;
}

void expect_shares(const std::vector<double>& shares, const std::vector<double>& expected) {
    ASSERT_EQ(shares.size(), expected.size());
    for (std::size_t i = 0; i < shares.size(); ++i) {
        EXPECT_NEAR(shares[i], expected[i], 1e-9) << "server " << i;
    }
}

/// The best slowest time of three nodes over a grid of all shares that a server may have.
double best_of_grid(const std::vector<ServerSpeed>& servers, const std::vector<int>& workers) {
    constexpr int kSteps = 200;
    double best = INFINITY;
    for (int a = 0; a <= kSteps; ++a) {
        for (int b = 0; a + b <= kSteps; ++b) {
            const double shares[] = {a / double{kSteps}, b / double{kSteps},
                                     (kSteps - a - b) / double{kSteps}};
            if (std::ranges::min(shares) >= kLeastShare / 3) {
                best = std::min(best, slowest_server_s(servers, workers, shares));
            }
        }
    }
    return best;
}

TEST(ShardShares, AreInProportionToSpeedOnNodesWithoutWorkers) {
    const auto servers = on_own_nodes({1, 1, 3, 1}, 8);
    const std::vector<double> shares = capacity_shares(servers, each_on_its_node(8));
    expect_shares(shares, {0.3, 0.3, 0.1, 0.3});
    // One of S servers k times as slow: 1 / (S - 1 + 1 / k) of what one server would take, after
    // k / S of it.
    EXPECT_NEAR(slowest_server_s(servers, each_on_its_node(8), shares), 1 / (3 + 1.0 / 3), 1e-9);
    EXPECT_NEAR(slowest_server_s(servers, each_on_its_node(8), equal_shares(4)), 3.0 / 4, 1e-9);
}

/// The slow card carries what its own worker sends and receives, too: with a smaller share for its
/// server that is more, and equal shares are the best there are.
TEST(ShardShares, StayEqualWhereEveryNodeHasOneWorkerAndOneServer) {
    const auto servers = on_own_nodes({1, 1, 5, 1}, 0);
    expect_shares(capacity_shares(servers, each_on_its_node(4)), equal_shares(4));
}

TEST(ShardShares, ServersOfANodeShareItsCard) {
    // Two servers that each see half of the card of node 8, and one with node 9 for itself.
    const std::vector<ServerSpeed> servers{
        {.node = 8, .whole_s = 2}, {.node = 8, .whole_s = 2}, {.node = 9, .whole_s = 1}};
    expect_shares(capacity_shares(servers, each_on_its_node(8)), {0.25, 0.25, 0.5});
}

TEST(ShardShares, OnOneNodeForAllEveryServerTakesWhatItCan) {
    const std::vector<ServerSpeed> servers{{.node = 0, .whole_s = 1}, {.node = 0, .whole_s = 3}};
    const std::vector<int> workers{0, 0};
    expect_shares(capacity_shares(servers, workers), {0.75, 0.25});
    EXPECT_DOUBLE_EQ(slowest_server_s(servers, workers, equal_shares(2)), 1.5);
    EXPECT_NEAR(slowest_server_s(servers, workers, capacity_shares(servers, workers)), 0.75, 1e-9);
}

TEST(ShardShares, AreTheBestOfAllSharesOnAnyLayout) {
    std::mt19937 dice(1);
    for (int round = 0; round < 40; ++round) {
        std::vector<ServerSpeed> servers;
        for (int node = 0; node < 3; ++node) {
            servers.push_back({.node = node, .whole_s = 1.0 + static_cast<double>(dice() % 5)});
        }
        std::vector<int> workers;
        for (unsigned i = 0; i < 2 + dice() % 6; ++i) {
            workers.push_back(static_cast<int>(dice() % 4));
        }
        const std::vector<double> shares = capacity_shares(servers, workers);
        EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-9);
        EXPECT_LE(slowest_server_s(servers, workers, shares),
                  best_of_grid(servers, workers) * (1 + 1e-9))
            << "round " << round;
    }
}

TEST(ShardCuts, OfEqualSharesAreThoseByBytes) {
    for (std::int64_t units : {4, 7, 100, 1'000'003}) {
        const std::vector<std::int64_t> cuts = cut_by_shares(units, std::vector<double>(4, 0.3));
        for (std::int64_t i = 0; i <= 4; ++i) {
            EXPECT_EQ(cuts[static_cast<std::size_t>(i)], units * i / 4);
        }
    }
}

TEST(ShardCuts, GiveEveryServerAUnit) {
    EXPECT_EQ(cut_by_shares(4, std::vector<double>{1, 1e-9, 1e-9, 1e-9}),
              (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
    EXPECT_EQ(cut_by_shares(8, std::vector<double>{1, 3}), (std::vector<std::int64_t>{0, 2, 8}));
}

TEST(ShardCuts, MovesBringEveryPartFromItsOldOwnerToItsNewOne) {
    std::mt19937 dice(2);
    for (int round = 0; round < 50; ++round) {
        const auto cuts = [&dice] {
            std::vector<double> shares;
            for (int i = 0; i < 6; ++i) {
                shares.push_back(1.0 + static_cast<double>(dice() % 9));
            }
            const std::vector<std::int64_t> units = cut_by_shares(60, shares);
            return std::vector<double>(units.begin(), units.end());
        };
        const std::vector<double> before = cuts();
        const std::vector<double> after = cuts();
        const auto owner = [](const std::vector<double>& at, double unit) {
            return static_cast<int>(std::ranges::upper_bound(at, unit) - at.begin()) - 1;
        };
        const std::vector<ShardMove> moves = moves_between(before, after);
        for (int unit = 0; unit < 60; ++unit) {
            const auto moves_it = [unit](const ShardMove& move) {
                return move.begin <= unit && unit < move.end;
            };
            const auto found = std::ranges::find_if(moves, moves_it);
            const bool stays = owner(before, unit) == owner(after, unit);
            ASSERT_EQ(found == moves.end(), stays);
            if (!stays) {
                EXPECT_EQ(found->from, owner(before, unit));
                EXPECT_EQ(found->to, owner(after, unit));
                EXPECT_EQ(std::ranges::count_if(moves, moves_it), 1);
            }
        }
    }
}

}  // namespace
}  // namespace cohort
