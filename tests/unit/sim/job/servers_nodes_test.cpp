// Workers that share a node: what stays there, and what leaves as one sum.
#include <gtest/gtest.h>

#include "support/sim/virtual_runs.hpp"

namespace cohort {
namespace {

using test::VirtualRuns;

constexpr double kBytes = 1e6;
constexpr double kPass = 1e-3;  // of one core over the parameters
constexpr double kLatency = 1e-3;

class Staging : public testing::Test {
protected:
    Staging() {
        runs.profile.nic_bytes_per_s = 1e9;
        runs.profile.latency_s = kLatency;
        runs.profile.memory_bytes_per_s = kBytes / kPass;
        runs.profile.update_s = 2e-3;
        runs.profile.devices_per_node = 8;
        Workload& work = runs.profile.workloads["plain"];
        work.parameter_bytes = kBytes;
        work.backward_share = 0;
    }
    /// 8 workers on `nodes`, 20 pushes each; the server on a node of its own.
    [[nodiscard]] SimulationResult run(const std::string& mode, NodeStaging staging,
                                       int nodes = 1) const {
        SimulateOptions options = runs.options(mode, 8, std::int64_t{8} * 20);
        options.nodes = nodes;
        options.server_nodes = ServerNodes::kOwn;
        options.node_staging = staging;
        return simulate(options, {});
    }
    VirtualRuns runs;
};

/// All leave as one sum: it is sent while it is made.
TEST_F(Staging, SendsOneSumPerUpdate) {
    const SimulationResult result = run("ssgd", NodeStaging::kAuto);
    ASSERT_EQ(result.updates, 20);
    constexpr double kPull = 8 * kBytes / 1e9 + kLatency;
    constexpr double kSum = (8 + 1) * kPass;
    constexpr double kUpdate = (1 + 4 + 1) * kPass + 2e-3;
    static_assert(kSum > kBytes / 1e9 + kLatency && kPull > kUpdate);
    EXPECT_NEAR(result.virtual_s, kPull + 0.1 + 19 * (kSum + kPull + 0.1), 1e-6);
    EXPECT_NEAR(result.servers.at(0).rx_bytes, 19 * kBytes, 1) << "the last is not waited for";
    EXPECT_NEAR(result.servers.at(0).cpu_core_s, 19 * kUpdate + 2 * kPass, 1e-6);
    EXPECT_NEAR(result.worker_cpu_s.at(0), 19 * kSum, 1e-6) << "the first worker sums";
    EXPECT_NEAR(result.worker_cpu_s.at(1), 0, 1e-6);
    EXPECT_EQ(result.workers.at(0).own_s, result.workers.at(7).own_s);
}

/// Two nodes' sums meet in the one card of the server.
TEST_F(Staging, WaitsForTheSumsOfAllNodes) {
    runs.profile.memory_bytes_per_s = 1e12;
    runs.profile.update_s = 0;
    const SimulationResult result = run("ssgd", NodeStaging::kAuto, 2);
    constexpr double kPull = 8 * kBytes / 1e9 + kLatency;
    constexpr double kSums = 2 * kBytes / 1e9 + kLatency;
    EXPECT_NEAR(result.virtual_s, 20 * (kPull + 0.1) + 19 * kSums, 1e-3);
    EXPECT_NEAR(result.servers.at(0).rx_bytes, 19 * 2 * kBytes, 1);
}

TEST_F(Staging, IsOffWherePushesAreNeededOneByOne) {
    const double all = 160 * kBytes;
    EXPECT_NEAR(run("ssgd", NodeStaging::kOff).servers.at(0).rx_bytes, all, 1);
    EXPECT_NEAR(run("ssgd", NodeStaging::kAuto, 8).servers.at(0).rx_bytes, all, 1)
        << "a worker per node";
    EXPECT_NEAR(run("asgd", NodeStaging::kOn).servers.at(0).rx_bytes, all, 1);
    EXPECT_NEAR(run("kbatch-async:4", NodeStaging::kOn).servers.at(0).rx_bytes, all, 1);
    EXPECT_LT(run("static:4", NodeStaging::kOn).servers.at(0).rx_bytes, 0.3 * all);
    EXPECT_LT(run("localsgd:2", NodeStaging::kOn).servers.at(0).rx_bytes, 0.2 * all);
}

/// A node with a server stages only when asked to.
TEST_F(Staging, NeedsANodeWithoutServer) {
    SimulateOptions options = runs.options("ssgd", 8, 160);
    options.nodes = 2;
    const auto updates_of = [&options](NodeStaging staging) {
        options.node_staging = staging;
        return simulate(options, {}).servers.at(0);
    };
    const ServerUse automatic = updates_of(NodeStaging::kAuto);
    EXPECT_NEAR(automatic.cpu_core_s, 19 * ((5 + 4 + 1) * kPass + 2e-3) + 2 * kPass, 1e-6)
        << "four pushes and a sum";
    EXPECT_NEAR(updates_of(NodeStaging::kOn).cpu_core_s,
                19 * ((2 + 4 + 1) * kPass + 2e-3) + 2 * kPass, 1e-6);
    EXPECT_NEAR(updates_of(NodeStaging::kOff).cpu_core_s,
                19 * ((8 + 4 + 1) * kPass + 2e-3) + 2 * kPass, 1e-6);
}

/// Interrupted, dropped and merged pushes, groups and switches: accounts add up to the end.
TEST_F(Staging, WorksWithEveryMode) {
    runs.slow_workers({0.5, 0.1, 0.13, 0.1, 0.1, 0.11, 0.1, 0.3});
    for (const char* mode : {"ksync:5", "backup:2", "lgc:2", "dynamic", "lb-bsp", "hier:4:2",
                             "static:3", "cutoff", "sync-switch:0.5"}) {
        const SimulationResult result = run(mode, NodeStaging::kAuto, 2);
        EXPECT_EQ(result.stop_reason, "budget") << mode;
        EXPECT_EQ(result.samples_applied, 160 * 64) << mode;
        EXPECT_EQ(result.digest, run(mode, NodeStaging::kAuto, 2).digest) << mode;
    }
}

}  // namespace
}  // namespace cohort
