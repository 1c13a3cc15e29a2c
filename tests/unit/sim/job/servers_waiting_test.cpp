// How fast modes that leave some workers behind go, and what those left behind have done.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/sim/virtual_runs.hpp"

namespace cohort {
namespace {

using test::VirtualRuns;

/// The fourth cluster of chooser.md, section 4.
const std::vector<double> kSpread{0.1, 0.11, 0.15, 0.2, 0.3, 0.5, 0.8, 1.0};

double period(const std::string& mode) {
    VirtualRuns runs;
    runs.profile.workloads["plain"].device_s_per_sample = 0.05 / 64;
    runs.slow_workers(kSpread);
    return runs.period(mode, 8, 16000);
}

double pushes_per_second() {
    double all = 0;
    for (const double time : kSpread) {
        all += 1 / time;
    }
    return all;
}

TEST(Pace, OfKsyncIsTheKthTime) {
    for (std::size_t k = 1; k <= kSpread.size(); ++k) {
        const double expected = kSpread[k - 1];
        EXPECT_NEAR(period("ksync:" + std::to_string(k)), expected, 0.001 * expected) << k;
    }
}

/// N - C = 5 are waited for; the others finish what they do and are late.
TEST(Pace, OfBackupWorkersIsThatOfThoseWhoCount) {
    EXPECT_NEAR(period("backup:3"), 0.3, 0.001 * 0.3);
    EXPECT_NEAR(period("backup:7"), 0.1, 0.001 * 0.1);
    EXPECT_NEAR(period("lgc:3"), 0.3, 0.001 * 0.3) << "late pushes do not count";
}

/// After 0.2 s five pushes are there: two of the first two workers each would be six at 0.22 s.
TEST(Pace, OfKbatchSyncCountsSecondPushes) {
    EXPECT_NEAR(period("kbatch-sync:5"), 0.2, 0.001 * 0.2);
    EXPECT_NEAR(period("kbatch-sync:2"), 0.11, 0.001 * 0.11);
}

/// Nobody waits, unless two of its pushes do.
TEST(Pace, OfKbatchAsyncIsThatOfAllPushes) {
    EXPECT_NEAR(period("kbatch-async:5"), 5 / pushes_per_second(), 0.02 * 5 / pushes_per_second());
    EXPECT_NEAR(period("kbatch-async:1"), 1 / pushes_per_second(), 0.005 / pushes_per_second());
}

/// In the long run all push as often as the slowest.
TEST(Pace, OfSspIsThatOfTheSlowest) {
    EXPECT_NEAR(period("ssp:3"), 1.0 / 8, 0.005 / 8);
    EXPECT_NEAR(period("ssp:0"), 1.0 / 8, 0.005 / 8);
}

/// The slow worker has done its input work, in 10 ms, and a tenth of the rest when it is
/// interrupted.
TEST(Interrupted, WorkCountsAsFarAsItWent) {
    VirtualRuns runs;
    Workload& work = runs.profile.workloads["plain"];
    work.cpu_s = 0.02;
    work.cpu_threads = 2;
    runs.slow_workers({1.0, 0.1});
    const SimulationResult result = runs.run("ksync:1", 2, 50);
    ASSERT_EQ(result.updates, 50);
    EXPECT_NEAR(result.virtual_s, 49 * 0.11 + 1.01, 1e-6) << "it has the last batch";
    EXPECT_NEAR(result.worker_cpu_s.at(1), 49 * 0.02, 1e-6);
    EXPECT_NEAR(result.worker_cpu_s.at(0), 50 * 0.02, 1e-6);

    runs.rows.push_back(
        {.time_s = 0, .target = {TraceTarget::Kind::kWorker, 0}, .shares = {.delay_s = 0.105}});
    EXPECT_NEAR(runs.run("ksync:1", 2, 50).worker_cpu_s.at(0), 49 * 0.01 + 0.02, 1e-6)
        << "half of it in the 5 ms after the delay";
}

/// Computed after 0.1 s, a push of seconds, interrupted after 0.2 s: nobody was waited for.
TEST(Interrupted, PushesAreLostAndNotWaitedFor) {
    VirtualRuns runs;
    Workload& work = runs.profile.workloads["plain"];
    work.backward_share = 0;
    work.parameter_bytes = 1e6;
    runs.slow_workers({0.1, 0.2});
    runs.rows.push_back({.time_s = 0,
                         .target = {TraceTarget::Kind::kNode, 0},
                         .shares = {.tx = 1e5 / runs.profile.nic_bytes_per_s}});
    SimulateOptions options = runs.options("ksync:1", 2, 20);
    options.server_nodes = ServerNodes::kOwn;
    const SimulationResult result = simulate(options, {});
    ASSERT_EQ(result.updates, 20);
    double lost = 0;
    for (const LaneSpan& span : result.lanes) {
        const bool counts = span.worker == 0 && span.kind == LaneSpan::Kind::kLost;
        lost += counts ? span.end_s - span.begin_s : 0;
    }
    EXPECT_NEAR(lost, 19 * 0.1, 0.01) << "but the last";
    EXPECT_NEAR(result.worker_wait_s.at(0), 0, 0.01);
}

/// Batches that a worker computes after the first change of batches, until one has another size.
int old_batches(const SimulationResult& result, int worker) {
    const SwitchReport& change = result.switches.at(0);
    const double changed = change.train_seconds + change.in_force_s.value_or(0);
    double usual = 0;
    int count = 0;
    for (const LaneSpan& span : result.lanes) {
        if (span.worker != worker || span.kind != LaneSpan::Kind::kCompute) {
            continue;
        }
        const double length = span.end_s - span.begin_s;
        usual = usual == 0 ? length : usual;
        if (std::abs(length - usual) > 1e-3) {
            return count;
        }
        count += span.begin_s > changed - 1e-6 ? 1 : 0;
    }
    return -1;
}

/// Those that the worker holds already are used up, as in real runs: 4 where all wait.
TEST(Batches, ChangeAfterTheLeasesThatAreHeld) {
    VirtualRuns runs;
    runs.slow_workers({0.4, 0.1, 0.1, 0.1});
    EXPECT_EQ(old_batches(runs.run("lb-bsp", 4, 200), 0), 4);
    EXPECT_EQ(old_batches(runs.run("flexrr:8", 4, 400), 0), 1)
        << "2, one of which had begun before";
}

}  // namespace
}  // namespace cohort
