// Sums and parameters that travel over a tree of nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/plan/push_tree.hpp"
#include "support/core/message_of.hpp"
#include "support/sim/learner_run.hpp"
#include "support/sim/virtual_runs.hpp"

namespace cohort {
namespace {

using test::VirtualRuns;

constexpr double kBytes = 32e6;
constexpr double kRate = 1e9;
constexpr double kPush = kBytes / kRate;
constexpr double kLatency = 1e-4;
constexpr double kCompute = 0.1;
constexpr std::int64_t kUpdates = 20;

class Trees : public testing::Test {
protected:
    Trees() {
        runs.profile.nic_bytes_per_s = kRate;
        runs.profile.latency_s = kLatency;
        runs.profile.devices_per_node = 8;
        Workload& work = runs.profile.workloads["plain"];
        work.parameter_bytes = kBytes;
        work.backward_share = 0;
    }
    /// The server on a node of its own.
    [[nodiscard]] SimulateOptions options(const std::string& mode, const std::string& tree,
                                          int workers = 8, int nodes = 4) const {
        SimulateOptions options = runs.options(mode, workers, workers * kUpdates);
        options.nodes = nodes;
        options.server_nodes = ServerNodes::kOwn;
        options.push_tree = tree;
        return options;
    }
    [[nodiscard]] SimulationResult run(const std::string& mode, const std::string& tree,
                                       int workers = 8, int nodes = 4) const {
        return simulate(options(mode, tree, workers, nodes), {});
    }
    VirtualRuns runs;
};

/// Two heads with a child each: whole sums one level after the other, every worker's own pull.
TEST_F(Trees, GroupsSendTheirSumsByTheirHeads) {
    const SimulationResult result = run("ssgd", "0,1/3,2");
    ASSERT_EQ(result.updates, kUpdates);
    constexpr double kPull = 8 * kPush + kLatency;
    constexpr double kUp = (1 + 2) * kPush + 2 * kLatency;
    EXPECT_NEAR(result.virtual_s, kUpdates * (kPull + kCompute) + (kUpdates - 1) * kUp, 1e-2);
    EXPECT_NEAR(result.servers.at(0).rx_bytes, (kUpdates - 1) * 2 * kBytes, 1);
    EXPECT_NEAR(result.servers.at(0).tx_bytes, kUpdates * 8 * kBytes, 1);
}

/// The time of a round is the one that the tree was chosen by.
TEST_F(Trees, AutomaticOnesTakeTheTimeThatIsPredicted) {
    for (const int nodes : {4, 16}) {
        const int workers = 2 * nodes;
        TreeCosts costs;
        costs.nodes.assign(static_cast<std::size_t>(nodes),
                           {.up = kRate, .down = kRate, .workers = 2});
        costs.nodes.push_back({.up = kRate, .down = kRate, .servers = 1});
        costs.bytes = kBytes;
        costs.latency_s = kLatency;
        const PushTree tree = build_push_tree(costs);
        ASSERT_TRUE(tree.down());
        const SimulationResult result = run("ssgd", "auto", workers, nodes);
        const double round_s = result.virtual_s / kUpdates - kCompute;
        EXPECT_NEAR(round_s, round_seconds(tree, costs), 0.07 * round_s) << nodes;
        const SimulationResult sums = run("ssgd", "off", workers, nodes);
        EXPECT_LT(2.5 * result.virtual_s, sums.virtual_s) << nodes;
        EXPECT_LT(result.servers.at(0).rx_bytes, 0.6 * sums.servers.at(0).rx_bytes);
        EXPECT_LT(result.servers.at(0).tx_bytes, 0.3 * sums.servers.at(0).tx_bytes);
    }
}

/// Interrupted, dropped and merged pushes, groups and switches: accounts add up to the end, and
/// servers receive less where updates wait for several pushes. Others go straight to them.
TEST_F(Trees, CarryTheSumsOfEveryModeThatHasSome) {
    runs.slow_workers({0.5, 0.1, 0.13, 0.1, 0.1, 0.11, 0.1, 0.3});
    for (const auto& [mode, sums] :
         {std::pair("ksync:5", true), std::pair("backup:2", true), std::pair("lgc:2", true),
          std::pair("dynamic", true), std::pair("lb-bsp", true), std::pair("hier:4:2", true),
          std::pair("static:3", true), std::pair("cutoff", true),
          std::pair("sync-switch:0.5", true), std::pair("asgd", false), std::pair("dcasgd", false),
          std::pair("zeno++", false)}) {
        SimulateOptions now = options(mode, "auto", 8, 8);  // one worker on each node
        if (std::string(mode) == "zeno++") {
            now.no_train = false;
            now.data = test::tiny_file();
            now.batch = 10;
            now.samples = 400;
        }
        const SimulationResult result = simulate(now, {});
        EXPECT_EQ(result.stop_reason, "budget") << mode;
        EXPECT_EQ(result.samples_applied, now.samples) << mode;
        now.push_tree = "off";
        const double without = simulate(now, {}).servers.at(0).rx_bytes;
        const double received = result.servers.at(0).rx_bytes;
        EXPECT_TRUE(sums ? received < 0.8 * without : received == without)
            << mode << ": " << received << " of " << without;
    }
}

/// A head whose card others use is none any more: it only sends and gets its own, so that a round
/// grows by what its card takes for that.
TEST_F(Trees, AreRebuiltWhenAHeadsCardIsTaken) {
    const auto round_s = [this] {
        return run("ssgd", "auto", 8, 8).virtual_s / kUpdates - kCompute;
    };
    TreeCosts costs;
    costs.nodes.assign(8, {.up = kRate, .down = kRate, .workers = 1});
    costs.nodes.push_back({.up = kRate, .down = kRate, .servers = 1});
    costs.bytes = kBytes;
    costs.latency_s = kLatency;
    const PushTree healthy = build_push_tree(costs);
    const double before = round_s();
    constexpr double kLeft = 0.3;
    for (int node = 0; node < 8; ++node) {
        if (std::ranges::count(healthy.parents(), node) > 0) {
            costs.nodes[static_cast<std::size_t>(node)].up = kLeft * kRate;
            runs.rows.push_back({.time_s = 4 * before,
                                 .target = {TraceTarget::Kind::kNode, node},
                                 .shares = {.tx = kLeft}});
            break;
        }
    }
    const double other = round_seconds(build_push_tree(costs), costs);
    ASSERT_GT(round_seconds(healthy, costs), 1.2 * other);
    EXPECT_LT(round_s(), 1.07 * other);
}

TEST_F(Trees, ChangeNoParameter) {
    const auto trained = [this](const std::string& tree) {
        SimulateOptions now = options("ssgd", tree);
        now.no_train = false;
        now.data = test::tiny_file();
        now.batch = 10;
        now.samples = 800;
        const SimulationResult result = simulate(now, {});
        return std::tuple(result.loss, result.accuracy, result.updates);
    };
    EXPECT_EQ(trained("auto"), trained("off"));
    EXPECT_EQ(trained("0,1,2/3"), trained("off"));
}

TEST_F(Trees, ThatCannotBeAreRefused) {
    const auto refused = [this](const std::string& tree, Architecture arch) {
        SimulateOptions wrong = options("", tree);
        wrong.arch = arch;
        wrong.server_nodes = ServerNodes::kShared;
        return test::message_of<UsageError>([&] { return checked(wrong); });
    };
    using testing::HasSubstr;
    EXPECT_THAT(refused("auto", Architecture::kRing), HasSubstr("off with --arch ring"));
    EXPECT_THAT(refused("0,4", Architecture::kServers), HasSubstr("node 4 of 4"));
    EXPECT_THAT(refused("0,1/1", Architecture::kServers), HasSubstr("listed twice"));
    EXPECT_THAT(refused("0,1/", Architecture::kServers), HasSubstr("a group is empty"));
    EXPECT_EQ(refused("0,1/2,3", Architecture::kServers), "");
}

}  // namespace
}  // namespace cohort
