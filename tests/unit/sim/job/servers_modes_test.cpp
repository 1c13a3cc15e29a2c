// Every mode of servers runs to its end on a virtual cluster, whatever slows it down.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "cohort/core/error.hpp"
#include "cohort/sched/modes.hpp"
#include "support/sim/virtual_runs.hpp"

namespace cohort {
namespace {

using test::VirtualRuns;

const std::vector<std::string> kModes{
    "ssgd",           "static:3",        "quorum:5",       "ksync:5",      "backup:2",
    "lgc:2",          "kbatch-sync:5",   "kbatch-async:5", "softsync:2",   "localsgd:4",
    "hier:4:3",       "hier:3:2",        "asgd",           "ssp:1",        "dynsgd",
    "adadelay:1,0.5", "dcasgd",          "saps:1",         "saps:1:drop",  "saps:1:discount",
    "saps:auto",      "lb-bsp:32",       "zeno++",         "dynamic",      "cutoff",
    "lb-bsp",         "sync-switch:0.3", "flexrr:1",       "ssgd-or-asgd", "star-h",
    "star-h-exact",   "star-ml",         "adaptive"};
const std::vector<std::string> kPatterns{"healthy", "persistent:4", "storm"};

std::string base_name(const std::string& mode) {
    return mode.substr(0, mode.find_first_of(":["));
}

TEST(Modes, AreAllTried) {
    std::set<std::string> tried;
    for (const std::string& mode : kModes) {
        tried.insert(base_name(mode));
    }
    for (const std::string& name : mode_names(Architecture::kServers)) {
        EXPECT_TRUE(tried.contains(base_name(name))) << name;
    }
}

/// A cluster with transfers, input work and servers that take time.
ClusterProfile usual_profile() {
    ClusterProfile profile = test::plain_profile();
    profile.nic_bytes_per_s = 1e9;
    profile.local_bytes_per_s = 1e10;
    profile.latency_s = 5e-5;
    profile.devices_per_node = 4;
    profile.memory_bytes_per_s = 1e9;
    profile.update_s = 1e-4;
    Workload& work = profile.workloads["plain"];
    work.cpu_s_per_sample = 1e-4;
    work.cpu_threads = 2;
    work.parameter_bytes = 2e6;
    return profile;
}

class ModeRuns : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

/// simulate() itself checks that the engine, the leases and the samples applied agree.
TEST_P(ModeRuns, EndsWithAccountsThatAddUp) {
    const auto& [mode, pattern] = GetParam();
    VirtualRuns runs(usual_profile());
    SimulateOptions options = runs.options(mode, 8, 400);
    options.samples += 13;  // the last leases are short
    options.nodes = 4;
    options.servers = 2;
    options.pattern = pattern;
    const SimulationResult result = simulate(options, {});
    EXPECT_EQ(result.stop_reason, "budget");
    EXPECT_EQ(result.samples_applied, options.samples);
    EXPECT_EQ(result.accounts.applied, options.samples);
    EXPECT_EQ(result.accounts.outstanding, 0);
    EXPECT_GT(result.virtual_s, 5 * result.healthy_iteration_s);
    for (std::size_t worker = 0; worker < 8; ++worker) {
        EXPECT_LE(result.worker_busy_s.at(worker) + result.worker_wait_s.at(worker),
                  result.virtual_s * (1 + 1e-9));
        EXPECT_GE(result.worker_wait_s.at(worker), 0);
    }
    for (const LaneSpan& span : result.lanes) {
        ASSERT_LE(span.begin_s, span.end_s);
    }
    EXPECT_EQ(simulate(options, {}).digest, result.digest) << "the same again";
}

INSTANTIATE_TEST_SUITE_P(Servers, ModeRuns,
                         testing::Combine(testing::ValuesIn(kModes), testing::ValuesIn(kPatterns)));

TEST(Run, EndsWithItsVirtualTime) {
    VirtualRuns runs;
    SimulateOptions options = runs.options("asgd", 4, 4000);
    options.virtual_limit_s = 10.05;
    const SimulationResult result = simulate(options, {});
    EXPECT_EQ(result.stop_reason, "time");
    EXPECT_LE(result.virtual_s, options.virtual_limit_s);
    EXPECT_EQ(result.updates, 400);
    EXPECT_EQ(result.accounts.returned_for(ReturnReason::kStop), 4 * 64) << "one on each worker";
}

TEST(Run, EndsWhenItIsAskedTo) {
    VirtualRuns runs;
    int calls = 0;
    const SimulationResult result =
        simulate(runs.options("ssgd", 4, 4000), [&calls](const SimulationProgress& progress) {
            EXPECT_EQ(progress.budget_samples, 4000 * 64);
            return ++calls == 3;
        });
    EXPECT_EQ(result.stop_reason, "signal");
    EXPECT_LT(result.samples_applied, 4000 * 64);
    EXPECT_EQ(calls, 3);
}

/// Changes come from the very desk of real runs, at the update that reaches their samples.
TEST(Schedule, GoesThroughItsModes) {
    VirtualRuns runs(usual_profile());
    SimulateOptions options = runs.options("", 8, 1000);
    options.mode_schedule = "0:ssgd,16000:asgd,32000:hier:4:3,48000:saps:1";
    std::vector<std::string> told;
    const SimulationResult result = simulate(options, [&told](const SimulationProgress& progress) {
        if (progress.change) {
            told.push_back(progress.change->to);
        }
        return false;
    });
    ASSERT_EQ(result.switches.size(), 3U);
    EXPECT_EQ(told, (std::vector<std::string>{"asgd", "hier:4:3", "saps:1"}));
    for (const SwitchReport& change : result.switches) {
        EXPECT_GE(change.samples % 16000, 0);
        EXPECT_LE(change.samples % 16000, 3 * 8 * 64) << change.to;
        ASSERT_TRUE(change.in_force_s && change.first_update_s);
        EXPECT_LE(*change.in_force_s, *change.first_update_s);
    }
    EXPECT_GT(*result.switches[1].in_force_s + *result.switches[1].first_update_s, 0)
        << "a plan with groups begins at a fence";
    EXPECT_EQ(result.samples_applied, options.samples);
}

/// Members of a group wait for each other at every step; groups only at the end.
TEST(Groups, TakeAsLongAsTheirSlowestEveryStep) {
    VirtualRuns runs;
    runs.slow_workers({0.2, 0.1, 0.3, 0.1});
    constexpr std::int64_t kPushes = 4 * 3 * 5;  // five updates of 4 leases of 3 batches
    EXPECT_NEAR(runs.run("hier:2:3", 4, kPushes).virtual_s, 5 * 3 * 0.3, 1e-6);
    EXPECT_NEAR(runs.run("localsgd:3", 4, kPushes).virtual_s, 5 * 3 * 0.3, 1e-6);
    runs.rows.clear();
    // Each step has another slowest: alone they meet at the end, in a group at every step.
    for (const auto& [time, first] : {std::pair(0.0, 0.5), std::pair(0.2, 1.0)}) {
        for (int worker = 0; worker < 2; ++worker) {
            runs.rows.push_back({.time_s = time,
                                 .target = {TraceTarget::Kind::kWorker, worker},
                                 .shares = {.device = worker == 0 ? first : 1.5 - first}});
        }
    }
    EXPECT_NEAR(runs.run("localsgd:2", 2, 4).virtual_s, 0.3, 1e-6);
    EXPECT_NEAR(runs.run("hier:2:2", 2, 4).virtual_s, 0.4, 1e-6);
}

/// Parameters of 1 MB: a step's update moves five times that at 1e8 bytes/s, 50 ms; pushes and the
/// servers' work take next to nothing.
TEST(LocalSteps, UpdateTheirOwnParametersEachTime) {
    ClusterProfile profile = test::plain_profile();
    profile.memory_bytes_per_s = 1e8;
    profile.workloads["plain"].parameter_bytes = 1e6;
    VirtualRuns runs(profile);
    constexpr double kStep = 0.1 + 5 * 1e6 / 1e8;
    const auto pace = [&](const std::string& mode) {
        const SimulationResult two = runs.run(mode, 2, 2 * 3 * 2);
        const SimulationResult six = runs.run(mode, 2, 2 * 3 * 6);
        EXPECT_NEAR(six.workers.at(0).own_s, kStep, 1e-3) << mode;
        return (six.virtual_s - two.virtual_s) / 4;
    };
    // Between two pushes: three steps, and one update of the servers: two deltas, parameters and
    // velocity twice, a copy for the workers.
    EXPECT_NEAR(pace("localsgd:3"), 3 * kStep + 7 * 1e6 / 1e8, 1e-3);
    EXPECT_NEAR(pace("hier:2:3"), 3 * kStep + 7 * 1e6 / 1e8, 1e-3);
    // On a device its memory counts.
    profile.device_memory_bytes_per_s = 1e9;
    runs.profile = profile;
    constexpr double kOnDevice = 0.1 + 5 * 1e6 / 1e9;
    EXPECT_NEAR(runs.run("localsgd:3", 2, 36).workers.at(0).own_s, kOnDevice, 1e-3);
}

TEST(Seeds, GiveOtherStorms) {
    VirtualRuns runs(usual_profile());
    SimulateOptions options = runs.options("asgd", 8, 400);
    options.pattern = "storm";
    const std::uint64_t one = simulate(options, {}).digest;
    options.pattern_seed = 2;
    EXPECT_NE(simulate(options, {}).digest, one);
}

TEST(Run, SaysWhatIsWrongWithATrace) {
    VirtualRuns runs;
    runs.rows.push_back({.time_s = 0, .target = {TraceTarget::Kind::kWorker, 4}, .shares = {}});
    EXPECT_THROW((void)simulate(runs.options("asgd", 4, 40), {}), UsageError);
}

}  // namespace
}  // namespace cohort
