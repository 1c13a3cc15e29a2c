// Shards of virtual servers: sized by what their nodes can do, and resized at a fence.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/sim/virtual_runs.hpp"

namespace cohort {
namespace {

using test::VirtualRuns;

/// Eight workers and four servers on nodes of their own.
SimulateOptions hot_server(const VirtualRuns& runs, const std::string& mode, int pushes) {
    SimulateOptions options = runs.options(mode, 8, pushes);
    options.servers = 4;
    options.server_nodes = ServerNodes::kOwn;
    options.rebalance_servers = RebalanceServers::kOff;
    return options;
}

/// Transfers take longer than computing; from some time on the third server has less of its card
/// and processors.
struct SlowNetwork : VirtualRuns {
    explicit SlowNetwork(double slowness, double from_s = 0) {
        profile.nic_bytes_per_s = 1e9;
        profile.latency_s = 1e-4;
        profile.workloads["plain"].parameter_bytes = 1e8;
        profile.workloads["plain"].backward_share = 0;
        rows.push_back({.time_s = from_s,
                        .target = {TraceTarget::Kind::kNode, 8 + 2},
                        .shares = {.cpu = 1 / slowness, .rx = 1 / slowness, .tx = 1 / slowness}});
    }
};

double iteration_s(const SimulationResult& result) {
    return result.virtual_s / static_cast<double>(result.updates);
}

void expect_all_accounted(const SimulationResult& result, std::int64_t samples) {
    const EngineAccounts& accounts = result.accounts;
    const std::int64_t returned =
        std::accumulate(accounts.returned.begin(), accounts.returned.end(), std::int64_t{0});
    EXPECT_EQ(accounts.outstanding, 0);
    EXPECT_EQ(accounts.leased, accounts.applied + returned);
    EXPECT_EQ(accounts.applied, samples);
    EXPECT_EQ(accounts.returned_for(ReturnReason::kDropped), 0);
    EXPECT_EQ(accounts.returned_for(ReturnReason::kLost), 0);
}

TEST(VirtualShards, OfCapacityTakeTheTimeOfTheClosedForm) {
    for (const double slowness : {3.0, 5.0}) {
        const SlowNetwork runs(slowness);
        SimulateOptions options = hot_server(runs, "ssgd", 8 * 20);
        // Computing, then all pushes and all pulls over the slowest card; a latency each.
        const double all_s = 8 * 1e8 / 1e9;
        const double begin_s = 0.1 + 2e-4;
        EXPECT_NEAR(iteration_s(simulate(options, {})), begin_s + 2 * all_s * slowness / 4, 0.02);
        options.shards = ShardSizes::kCapacity;
        const SimulationResult sized = simulate(options, {});
        EXPECT_NEAR(iteration_s(sized), begin_s + 2 * all_s / (3 + 1 / slowness), 0.02);
        EXPECT_NEAR(sized.servers[2].share, 1 / (1 + 3 * slowness), 1e-6);
        EXPECT_TRUE(sized.resizes.empty());
    }
}

TEST(VirtualShards, EqualServersLoseNothingByEitherOption) {
    const SlowNetwork runs(1);
    SimulateOptions options = hot_server(runs, "ssgd", 8 * 60);
    const std::uint64_t digest = simulate(options, {}).digest;
    options.rebalance_servers = RebalanceServers::kOn;
    EXPECT_EQ(simulate(options, {}).digest, digest);
    options.shards = ShardSizes::kCapacity;
    EXPECT_EQ(simulate(options, {}).digest, digest);
}

TEST(VirtualShards, MoveOnceWhileTheJobRuns) {
    const SlowNetwork runs(3, 10);
    SimulateOptions options = hot_server(runs, "ssgd", 8 * 200);
    const double lags_s = simulate(options, {}).virtual_s;
    options.rebalance_servers = RebalanceServers::kOn;
    const SimulationResult moved = simulate(options, {});
    expect_all_accounted(moved, 8 * 200 * 64);
    EXPECT_EQ(moved.updates, 200);
    ASSERT_FALSE(moved.resizes.empty());
    EXPECT_LE(moved.resizes.size(), 4U) << "once the old windows are forgotten it stays";
    EXPECT_LT(moved.virtual_s, 0.65 * lags_s);
    EXPECT_NEAR(moved.servers[2].share, 0.1, 0.02);
    for (const ShardResize& resize : moved.resizes) {
        EXPECT_GT(resize.bytes, 0);
        EXPECT_LT(resize.ended_s - resize.begun_s, iteration_s(moved)) << resize.why;
        EXPECT_GT(resize.ended_s, resize.begun_s) << "the network takes time";
        EXPECT_LT(resize.begun_s - resize.asked_s, 2 * lags_s / 200) << "work goes on to the fence";
    }
    EXPECT_EQ(simulate(options, {}).digest, moved.digest);
    options.push_tree = "auto";
    EXPECT_TRUE(simulate(options, {}).resizes.empty())
        << "sums of a tree are for servers that stay";
}

TEST(VirtualShards, MoveInEveryKindOfModeWithoutALoss) {
    for (const char* mode :
         {"asgd", "static:6", "ssp:2", "hier:2:4", "localsgd:2", "kbatch-async:4", "softsync:2",
          "dcasgd", "zeno++:0:8", "lb-bsp", "adaptive"}) {
        SCOPED_TRACE(mode);
        const SlowNetwork runs(5);
        SimulateOptions options = hot_server(runs, mode, 8 * 80);
        const SimulationResult equal = simulate(options, {});
        options.rebalance_servers = RebalanceServers::kOn;
        const SimulationResult moved = simulate(options, {});
        EXPECT_FALSE(moved.resizes.empty());
        EXPECT_EQ(moved.accounts.outstanding, 0);
        EXPECT_EQ(moved.accounts.applied, equal.accounts.applied);
        EXPECT_EQ(moved.accounts.returned_for(ReturnReason::kLost), 0);
        EXPECT_LT(moved.virtual_s, 0.9 * equal.virtual_s);
    }
}

/// Every node has a worker and a server: the slow card has its worker's transfers to carry as well,
/// and a smaller shard would make them longer.
TEST(VirtualShards, StayWhereNothingCanBeGained) {
    SlowNetwork runs(5);
    runs.rows.front().target.index = 2;
    SimulateOptions options = runs.options("ssgd", 4, 4 * 60);
    options.servers = 4;
    options.rebalance_servers = RebalanceServers::kOff;
    const SimulationResult equal = simulate(options, {});
    options.shards = ShardSizes::kCapacity;
    options.rebalance_servers = RebalanceServers::kOn;
    EXPECT_EQ(simulate(options, {}).digest, equal.digest);
}

/// The target of a mode that is told to stop while shards move is not waited for in vain.
TEST(VirtualShards, AJobMayEndInTheMiddleOfAMove) {
    const SlowNetwork runs(5);
    SimulateOptions options = hot_server(runs, "ssgd", 8 * 80);
    options.rebalance_servers = RebalanceServers::kOn;
    const SimulationResult whole = simulate(options, {});
    ASSERT_FALSE(whole.resizes.empty());
    const ShardResize& first = whole.resizes.front();
    options.virtual_limit_s = (first.begun_s + first.ended_s) / 2;
    const SimulationResult cut = simulate(options, {});
    EXPECT_EQ(cut.stop_reason, "time");
    EXPECT_EQ(cut.accounts.outstanding, 0);
    EXPECT_TRUE(cut.resizes.empty());
}

}  // namespace
}  // namespace cohort
