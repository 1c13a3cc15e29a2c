#include "sched/servers/shard_balancer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace cohort {
namespace {

/// Servers on nodes of their own, and eight workers; every update is a reference batch. A server is
/// busy fixed_s + share x whole_s, and an iteration takes as long as computing and the slowest one.
struct Servers {
    std::vector<double> whole_s;
    double fixed_s = 0;
    double compute_s = 1;
    double hidden_s = 0;  ///< of the slowest server's time behind computing
    double noise = 0;     ///< deviation of the logarithm of every time
};

class BalancedRun {
public:
    BalancedRun(Servers servers, unsigned seed)
        : cluster(std::move(servers)),
          balancer({8, 9, 10, 11}, {0, 1, 2, 3, 4, 5, 6, 7}, equal_shares(4)),
          dice_(seed),
          busy_s_(4, 0) {}

    void move(std::vector<double> shares) {
        balancer.moved({.shares = std::move(shares), .why = "as requested"}, 0.5);
    }
    /// @param decides  shares follow what is measured
    void go(int batches, bool decides = true) {
        for (int i = 0; i < batches; ++i) {
            double slowest_s = 0;
            for (std::size_t server = 0; server < 4; ++server) {
                const double took_s =
                    std::max(0.02, cluster.fixed_s +
                                       balancer.shares()[server] * cluster.whole_s[server]) *
                    noise();
                busy_s_[server] += took_s;
                slowest_s = std::max(slowest_s, took_s);
            }
            iteration_s = cluster.compute_s * noise() + std::max(slowest_s - cluster.hidden_s, 0.0);
            now_s += iteration_s;
            if (balancer.went(now_s, ++batches_, busy_s_)) {
                if (const auto resize = balancer.decide(); resize && decides) {
                    balancer.moved(*resize, 0.5);
                    why = resize->why;
                    ++moves;
                    now_s += 0.5;
                }
            }
        }
    }

    Servers cluster;
    ShardBalancer balancer;
    double now_s = 0;
    double iteration_s = 0;
    int moves = 0;
    std::string why;  ///< of the last one

private:
    double noise() { return std::exp(std::normal_distribution<double>(0, cluster.noise)(dice_)); }

    std::mt19937 dice_;
    std::vector<double> busy_s_;
    double batches_ = 0;
};

TEST(ShardBalancer, ResizesOnceForASlowServer) {
    BalancedRun run({.whole_s = {1, 1, 5, 1}}, 1);
    run.go(200);
    EXPECT_EQ(run.moves, 1);
    EXPECT_NEAR(run.balancer.shares()[2], 1.0 / 16, 1e-4);
    EXPECT_NEAR(run.balancer.shares()[0], 5.0 / 16, 1e-4);
}

TEST(ShardBalancer, LeavesEqualServersAlone) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        BalancedRun run({.whole_s = {1, 1, 1, 1}, .noise = 0.3}, seed);
        run.go(400);
        EXPECT_EQ(run.moves, 0) << "seed " << seed;
    }
}

TEST(ShardBalancer, DoesNotSwingUnderNoise) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        BalancedRun run({.whole_s = {3, 3, 9, 3}, .compute_s = 0.5, .noise = 0.3}, seed);
        run.go(600);
        EXPECT_GE(run.moves, 1) << "seed " << seed;
        EXPECT_LE(run.moves, 6) << "seed " << seed;
        EXPECT_NEAR(run.balancer.shares()[2], 0.1, 0.04) << "seed " << seed;
    }
}

/// The time of a small shard is not in proportion to its bytes: shares come to rest all the same.
TEST(ShardBalancer, ComesToRestWhereTimesHaveAFixedPart) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        BalancedRun run({.whole_s = {3, 3, 9, 3}, .fixed_s = 0.4, .compute_s = 0.5, .noise = 0.1},
                        seed);
        run.go(300);
        const int before = run.moves;
        run.go(600);
        EXPECT_LE(before, 5) << "seed " << seed;
        EXPECT_LE(run.moves - before, 2) << "seed " << seed;
        EXPECT_NEAR(run.balancer.shares()[2], 0.1, 0.05) << "seed " << seed;
    }
}

/// What goes through at once makes a small shard quicker than in proportion: a division in
/// proportion to the last measurement would swing.
TEST(ShardBalancer, ComesToRestWhereSomeBytesPassAtOnce) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        BalancedRun run({.whole_s = {3, 3, 9, 3}, .fixed_s = -0.1, .compute_s = 0.3, .noise = 0.05},
                        seed);
        run.go(200);
        const int before = run.moves;
        run.go(600);
        EXPECT_LE(before, 4) << "seed " << seed;
        EXPECT_LE(run.moves - before, 2) << "seed " << seed;
        EXPECT_LT(run.iteration_s, 0.3 + 1.25 * 0.8) << "seed " << seed;
    }
}

/// Where the slow server's time is hidden behind computing, a move helps nobody: it is undone, and
/// tried again ever more rarely.
TEST(ShardBalancer, UndoesWhatDoesNotHelp) {
    BalancedRun run({.whole_s = {1, 1, 4, 1}, .compute_s = 1, .hidden_s = 10, .noise = 0.02}, 3);
    run.go(30);
    EXPECT_EQ(run.moves, 2);
    EXPECT_EQ(run.balancer.shares(), equal_shares(4));
    run.go(2000);
    EXPECT_LE(run.moves, 12);
}

TEST(ShardBalancer, FollowsALoadThatMoves) {
    BalancedRun run({.whole_s = {3, 3, 9, 3}, .compute_s = 0.5}, 1);
    run.go(100);
    EXPECT_NEAR(run.balancer.shares()[2], 0.1, 0.02);
    run.cluster.whole_s = {3, 9, 3, 3};
    run.go(100);
    EXPECT_NEAR(run.balancer.shares()[1], 0.1, 0.03);
    EXPECT_NEAR(run.balancer.shares()[2], 0.3, 0.03);
    run.cluster.whole_s = {3, 3, 3, 3};
    run.go(100);
    for (const double share : run.balancer.shares()) {
        EXPECT_NEAR(share, 0.25, 0.04);
    }
}

/// What a move costs must come back while the speeds last.
TEST(ShardBalancer, DoesNotMoveForLittle) {
    BalancedRun run({.whole_s = {1, 1, 1.1, 1}, .compute_s = 3}, 1);
    run.go(300);
    EXPECT_EQ(run.moves, 0);
}

/// A shard of next to nothing takes a fixed time only, which says nothing about its server.
TEST(ShardBalancer, SharesMovedByHandCanBeUndone) {
    constexpr double kNothing = 1e-6;
    const std::vector<double> torn{kNothing, (1 - kNothing) / 3, (1 - kNothing) / 3,
                                   (1 - kNothing) / 3};
    for (const int measured : {0, 40}) {  // batches before
        BalancedRun run({.whole_s = {3, 3, 9, 3}, .fixed_s = 0.4}, 1);
        run.go(measured, false);
        run.move(torn);
        EXPECT_GT(run.balancer.suited()[0], 0.2) << measured;
        run.go(40, false);
        EXPECT_GT(run.balancer.suited()[0], 0.2) << measured;
        EXPECT_LT(run.balancer.suited()[2], 0.2) << measured;
        run.go(400);
        EXPECT_NEAR(run.balancer.shares()[0], 0.3, 0.04) << measured;
        EXPECT_NEAR(run.balancer.shares()[2], 0.1, 0.04) << measured;
    }
}

TEST(ShardBalancer, SaysWhichServerIsSlower) {
    BalancedRun run({.whole_s = {1, 1, 5, 1}}, 1);
    run.go(100);
    EXPECT_THAT(run.why, testing::StartsWith("server 2 is 5.0x slower: 0.250 -> 0.06"));
    run.cluster.whole_s = {5, 5, 1, 1};
    run.go(100);
    EXPECT_THAT(run.why, testing::HasSubstr(" is 5.0x slower: "))
        << "half of them; the others are what it is compared with";
    BalancedRun equal({.whole_s = {1, 1, 1, 1}}, 1);
    equal.move({0.7, 0.1, 0.1, 0.1});
    equal.go(100);
    EXPECT_EQ(equal.why, "servers are equally fast: 0.700 -> 0.250 of the parameters for server 0");
}

TEST(ShardBalancer, NoServerIsLeftWithoutEnoughToBeMeasuredBy) {
    BalancedRun run({.whole_s = {1, 1, 1000, 1}}, 1);
    run.go(100);
    EXPECT_GE(run.balancer.shares()[2], 0.9 * kLeastShare / 4);
}

}  // namespace
}  // namespace cohort
