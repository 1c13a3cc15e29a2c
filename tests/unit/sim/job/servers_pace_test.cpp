// How fast modes go on a virtual cluster, against what is known on paper.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "support/sim/virtual_runs.hpp"

namespace cohort {
namespace {

using test::plain_profile;
using test::VirtualRuns;

constexpr double kExact = 1e-6;  // of seconds of some updates: a byte here and there takes time

const std::vector<double> kMixed{0.1, 0.13, 0.2, 0.16};

TEST(Pace, OfSsgdIsThatOfTheSlowest) {
    VirtualRuns runs;
    runs.slow_workers(kMixed);
    const SimulationResult result = runs.run("ssgd", 4, 40);
    EXPECT_EQ(result.updates, 10);
    EXPECT_NEAR(result.virtual_s, 10 * 0.2, kExact);
    EXPECT_EQ(result.accounts.applied, 40 * 64);
}

/// Transfers and updates that take milliseconds, and no backward that would hide them.
Workload& slow_transfers(VirtualRuns& runs) {
    runs.profile.nic_bytes_per_s = 1e9;
    runs.profile.latency_s = 1e-3;
    runs.profile.memory_bytes_per_s = 1e9;
    runs.profile.update_s = 2e-3;
    Workload& work = runs.profile.workloads["plain"];
    work.parameter_bytes = 1e6;
    work.backward_share = 0;
    return work;
}

/// All of 8 workers pull and push at once through the card of the one server.
TEST(Pace, OfSsgdHasTheTransfersOfAll) {
    VirtualRuns runs;
    slow_transfers(runs);
    SimulateOptions options = runs.options("ssgd", 8, 8 * 20);
    options.server_nodes = ServerNodes::kOwn;
    const SimulationResult result = simulate(options, {});
    constexpr double kTransfer = 8 * 1e6 / 1e9 + 1e-3;
    constexpr double kUpdate = (8 + 4 + 1) * 1e6 / 1e9 + 2e-3;  // one copy, which all are sent
    static_assert(kUpdate > kTransfer);  // what is done of it is pulled meanwhile
    const double begin = kTransfer + 0.1 + kTransfer;
    EXPECT_NEAR(result.virtual_s, begin + 19 * (kUpdate + 0.1 + kTransfer), kExact);

    runs.profile.memory_bytes_per_s = 1e12;
    options = runs.options("ssgd", 8, 8 * 20);
    options.server_nodes = ServerNodes::kOwn;
    EXPECT_NEAR(simulate(options, {}).virtual_s, 20 * (kTransfer + 0.1 + kTransfer), 1e-3)
        << "now the pull takes longer";
}

/// Half of the time is backward; a push that takes less than that is not seen.
TEST(Pace, HidesAPushBehindBackward) {
    VirtualRuns runs;
    runs.profile.nic_bytes_per_s = 1e9;
    runs.profile.workloads["plain"].parameter_bytes = 1e6;  // 8 of them: 8 ms
    SimulateOptions options = runs.options("ssgd", 8, 8 * 20);
    options.server_nodes = ServerNodes::kOwn;
    EXPECT_NEAR(simulate(options, {}).virtual_s, 20 * (0.1 + 8e-3), 1e-3);
}

TEST(Pace, OfAsgdIsTheSumOfAll) {
    VirtualRuns runs;
    runs.slow_workers(kMixed);
    const double rate = 1 / 0.1 + 1 / 0.13 + 1 / 0.2 + 1 / 0.16;
    EXPECT_NEAR(runs.period("asgd", 4, 4000) * rate, 1, 0.005);
}

/// 16 workers ask for 160 pushes a second; the way into the server's card carries 40.
TEST(Pace, OfAsgdIsTheServersCardWhenThatIsFull) {
    VirtualRuns runs;
    runs.profile.nic_bytes_per_s = 4e9;
    runs.profile.workloads["plain"].parameter_bytes = 1e6;
    const auto narrow = [&runs](int node) {
        runs.rows.push_back(
            {.time_s = 0, .target = {TraceTarget::Kind::kNode, node}, .shares = {.rx = 0.01}});
    };
    narrow(16);
    SimulateOptions options = runs.options("asgd", 16, 4000);
    options.server_nodes = ServerNodes::kOwn;
    const SimulationResult result = simulate(options, {});
    EXPECT_NEAR(static_cast<double>(result.updates) / result.virtual_s, 40, 0.005 * 40);
    ASSERT_EQ(result.servers.size(), 1U);
    EXPECT_NEAR(result.servers[0].rx_bytes / result.virtual_s, 40e6, 0.01 * 40e6);

    narrow(17);  // two servers have a half of every push each
    options = runs.options("asgd", 16, 4000);
    options.server_nodes = ServerNodes::kOwn;
    options.servers = 2;
    const SimulationResult two = simulate(options, {});
    EXPECT_NEAR(static_cast<double>(two.updates) / two.virtual_s, 80, 0.02 * 80);
}

/// Mean time between updates of static:x, by the rule of chooser.md, section 4: the x that are done
/// first restart, the others go on. In whole microseconds, so that ties are ties.
double static_period(const std::vector<double>& seconds, std::size_t x) {
    std::vector<std::int64_t> whole;
    for (const double time : seconds) {
        whole.push_back(std::llround(time * 1e6));
    }
    std::vector<std::int64_t> left = whole;
    std::int64_t all = 0;
    constexpr int kUpdates = 20000;
    for (int update = 0; update < kUpdates; ++update) {
        std::vector<std::size_t> order(seconds.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&left](std::size_t a, std::size_t b) { return left[a] < left[b]; });
        const std::int64_t step = left[order[x - 1]];
        all += step;
        for (std::size_t i = 0; i < order.size(); ++i) {
            const std::size_t worker = order[i];
            left[worker] = i < x ? whole[worker] : left[worker] - step;
        }
    }
    return static_cast<double>(all) * 1e-6 / kUpdates;
}

/// Times without ties: how those are broken decides between cycles of other lengths.
TEST(Pace, OfStaticQuorumsIsThatOfTheRule) {
    const std::vector<double> seconds{0.1003, 0.1117, 0.1531, 0.2049,
                                      0.3071, 0.5093, 0.8111, 1.0133};
    VirtualRuns runs;
    runs.slow_workers(seconds);
    for (std::size_t x = 1; x <= 8; ++x) {
        const double expected = static_period(seconds, x);
        EXPECT_NEAR(runs.period("static:" + std::to_string(x), 8, 16000), expected,
                    0.005 * expected)
            << "static:" << x;
    }
}

struct Golden {
    std::vector<std::int64_t> thousandths;  ///< of a second: the workers' iterations
    std::vector<double> milliseconds;       ///< between updates of static:x, x = 1..8
};

/// chooser.md, section 4: exact event simulation, by another program. Pushes that are complete at
/// the same moment go by worker, which decides what cycle is gone through; so times here are
/// multiples of 2^-10 s, and what is not computing takes less than the clock can tell.
class StaticPace : public testing::TestWithParam<Golden> {
protected:
    static constexpr double kUnit = 1.0 / 1024;  // seconds, for a thousandth
};

TEST_P(StaticPace, IsTheGoldenOne) {
    VirtualRuns runs;
    runs.profile.nic_bytes_per_s = runs.profile.local_bytes_per_s = 1e18;
    runs.profile.memory_bytes_per_s = 1e18;
    runs.profile.workloads["plain"].parameter_bytes = 1e-6;
    runs.profile.workloads["plain"].device_s_per_sample = kUnit;
    std::vector<double> seconds;
    for (std::size_t worker = 0; worker < GetParam().thousandths.size(); ++worker) {
        const auto whole = static_cast<double>(GetParam().thousandths[worker]);
        seconds.push_back(whole / 1000);
        runs.rows.push_back({.time_s = 0,
                             .target = {TraceTarget::Kind::kWorker, static_cast<int>(worker)},
                             .shares = {.delay_s = (whole - 64) * kUnit}});
    }
    for (std::size_t x = 1; x <= 8; ++x) {
        const double golden = GetParam().milliseconds[x - 1] / 1000;
        EXPECT_NEAR(static_period(seconds, x), golden, 0.005 * golden) << x;
        EXPECT_NEAR(runs.period("static:" + std::to_string(x), 8, 16000) / kUnit / 1000, golden,
                    0.005 * golden)
            << "static:" << x;
    }
}

INSTANTIATE_TEST_SUITE_P(Clusters, StaticPace,
                         testing::Values(Golden{{100, 100, 100, 100, 100, 100, 100, 200},
                                                {1000.0 / 75, 28.6, 50, 66.7, 100, 100, 100, 200}},
                                         Golden{{100, 100, 100, 100, 200, 200, 200, 200},
                                                {1000.0 / 60, 33.3, 50, 66.7, 100, 100, 200, 200}},
                                         Golden{{100, 102, 98, 101, 99, 150, 220, 400},
                                                {15.7, 33.9, 55, 87.3, 100, 110, 173.3, 400}},
                                         Golden{
                                             {100, 110, 150, 200, 300, 500, 800, 1000},
                                             {26.1, 57.5, 96.5, 134.4, 197.1, 333.3, 500, 1000}}));

TEST(Pace, OfSspWithoutSlackIsThatOfSsgd) {
    VirtualRuns runs;
    runs.slow_workers(kMixed);
    const SimulationResult result = runs.run("ssp:0", 4, 400);
    EXPECT_NEAR(result.virtual_s, 100 * 0.2, kExact * 100);
}

/// Whoever can only be equally slow is not helped by less work, who is slow in proportion is.
TEST(Pace, OfLbBspCuresWhatIsProportional) {
    VirtualRuns proportional;
    proportional.slow_workers({0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1});
    EXPECT_NEAR(proportional.period("ssgd", 8, 8000), 0.4, 0.001);
    EXPECT_LT(proportional.period("lb-bsp", 8, 8000), 0.12) << "8 batches by 7.25 workers: 0.11 s";

    VirtualRuns constant;
    constant.rows.push_back(
        {.time_s = 0, .target = {TraceTarget::Kind::kWorker, 0}, .shares = {.delay_s = 0.3}});
    EXPECT_NEAR(constant.period("ssgd", 8, 8000), 0.4, 0.001);
    const SimulationResult half = constant.run("lb-bsp", 8, 8000);
    const SimulationResult all = constant.run("lb-bsp", 8, 16000);
    EXPECT_NEAR((all.virtual_s - half.virtual_s) / static_cast<double>(all.updates - half.updates),
                0.3 + 0.1 / 8, 1e-4)
        << "the delay and the smallest batch";
}

/// Every push of 8 equal workers finds those of the 7 others applied.
TEST(Lag, OfAsgdIsThatOfAllOthers) {
    const SimulationResult result = VirtualRuns().run("asgd", 8, 4000);
    double lag = 0;
    std::int64_t pushes = 0;
    for (const WorkerReport& worker : result.workers) {
        lag += worker.lag_sum;
        pushes += worker.pushes;
    }
    EXPECT_EQ(pushes, 4000);
    EXPECT_NEAR(lag / static_cast<double>(pushes), 7.0 / 8, 0.01);
    EXPECT_EQ(
        std::accumulate(result.lag_histogram.begin(), result.lag_histogram.end(), std::int64_t{0}),
        4000);
    EXPECT_GT(result.lag_histogram.at(7), 3900);
}

/// Under asgd the slow worker's pushes lag by 5 * 7/8 and more.
TEST(Lag, OfSapsStaysWithinItsBound) {
    VirtualRuns runs;
    runs.slow_workers({0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1});
    const auto most = [](const SimulationResult& result) {
        double lag = 0;
        for (const WorkerReport& worker : result.workers) {
            lag = std::max(lag, worker.lag_max);
        }
        return lag;
    };
    EXPECT_GT(most(runs.run("asgd", 8, 2000)), 4);
    const SimulationResult saps = runs.run("saps:2", 8, 2000);
    EXPECT_LE(most(saps), 2);
    EXPECT_GT(saps.workers.front().pushes, 10) << "short leases are done in time";
    EXPECT_GT(saps.accounts.returned_for(ReturnReason::kInterrupted), 0);
    const double fast = static_cast<double>(saps.workers.back().pushes) / saps.virtual_s;
    EXPECT_NEAR(fast, 10, 0.1) << "nobody waits for it";
}

/// A worker's iteration alone: pull, input, device, what of the push backward does not hide, and
/// the update.
TEST(HealthyIteration, HasAllPartsOfAnIteration) {
    VirtualRuns runs;
    Workload& work = slow_transfers(runs);
    work.cpu_s = 0.02;
    work.cpu_threads = 4;
    SimulateOptions options = runs.options("ssgd", 8, 16);
    options.server_nodes = ServerNodes::kOwn;
    constexpr double kTransfer = 1e-3 + 1e-3;
    constexpr double kUpdate = (1 + 4 + 1) * 1e-3 + 2e-3;
    static_assert(kUpdate > kTransfer);
    EXPECT_NEAR(simulate(options, {}).healthy_iteration_s, kUpdate + 0.02 / 4 + 0.1 + kTransfer,
                1e-9);
}

double ideal(const SimulationResult& result) {
    return result.ideal_samples_s.value_or(0);
}

TEST(IdealPace, IsThatOfAllWorkersWithoutWaiting) {
    VirtualRuns runs;
    runs.slow_workers(kMixed);
    const double all = 64 * (1 / 0.1 + 1 / 0.13 + 1 / 0.2 + 1 / 0.16);
    EXPECT_NEAR(ideal(runs.run("ssgd", 4, 80)), all, 1e-4);
    EXPECT_NEAR(ideal(runs.run("asgd", 4, 80)), all, 1e-4) << "whatever the mode";
    runs.slow_workers({0.1, 0.13, 0.2, 0.32});
    EXPECT_LT(ideal(runs.run("ssgd", 4, 80)), all - 100);
}

/// Servers answer at once, and nobody else uses the links.
TEST(IdealPace, HasTransfersThatAWorkerDoesAlone) {
    VirtualRuns runs;
    slow_transfers(runs);
    SimulateOptions options = runs.options("ssgd", 8, 160);
    options.server_nodes = ServerNodes::kOwn;
    constexpr double kTransfer = 1e-3 + 1e-3;
    constexpr double kOwn = kTransfer + 0.1 + kTransfer;
    EXPECT_NEAR(ideal(simulate(options, {})), 8 * 64 / kOwn, 1e-3);

    runs.rows.push_back(
        {.time_s = 0, .target = {TraceTarget::Kind::kNode, 3}, .shares = {.rx = 0.5, .tx = 0.25}});
    options = runs.options("ssgd", 8, 160);
    options.server_nodes = ServerNodes::kOwn;
    const double slow = 1 / (2 * kTransfer + 0.1 + 4 * kTransfer);
    EXPECT_NEAR(ideal(simulate(options, {})), 64 * (7 / kOwn + slow), 1e-3);
}

/// Beside a worker that is as good as dead the others would do ten billion mini-batches.
TEST(IdealPace, IsNotComputedForAges) {
    VirtualRuns runs;
    runs.rows.push_back(
        {.time_s = 0, .target = {TraceTarget::Kind::kWorker, 3}, .shares = {.delay_s = 1e9}});
    const SimulationResult result = simulate(runs.options("ssgd", 4, 16), {});
    EXPECT_GT(result.virtual_s, 1e9);
    EXPECT_GT(result.samples_applied, 0);
    EXPECT_EQ(result.ideal_samples_s, std::nullopt);
}

/// The card of the one server carries ten sets of parameters per second.
TEST(IdealPace, IsNotMoreThanTheLinksCarry) {
    VirtualRuns runs;
    slow_transfers(runs).parameter_bytes = 1e8;
    runs.profile.memory_bytes_per_s = 1e12;
    SimulateOptions options = runs.options("asgd", 8, 1600);
    options.server_nodes = ServerNodes::kOwn;
    const SimulationResult result = simulate(options, {});
    EXPECT_NEAR(ideal(result), 10 * 64, 0.02 * 10 * 64);
    const double pace = static_cast<double>(result.samples_applied) / result.virtual_s;
    EXPECT_LT(pace, ideal(result));
    EXPECT_GT(pace, 0.8 * ideal(result)) << "asgd waits for the links alone";
}

/// What a mode that does not wait asks of the servers, per second.
TEST(ServerUse, IsHigherUnderAsgd) {
    VirtualRuns runs;
    runs.profile.nic_bytes_per_s = 1e9;
    runs.profile.memory_bytes_per_s = 1e9;
    runs.profile.workloads["plain"].parameter_bytes = 1e5;
    runs.slow_workers({0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1});
    const auto per_second = [](const SimulationResult& result) {
        const ServerUse& use = result.servers.at(0);
        return std::pair(use.cpu_core_s / result.virtual_s,
                         (use.rx_bytes + use.tx_bytes) / result.virtual_s);
    };
    const auto run = [&runs](const std::string& mode, ServerNodes where) {
        SimulateOptions options = runs.options(mode, 8, 1600);
        options.server_nodes = where;
        return simulate(options, {});
    };
    const auto ssgd = per_second(run("ssgd", ServerNodes::kOwn));
    const auto asgd = per_second(run("asgd", ServerNodes::kOwn));
    EXPECT_NEAR(asgd.second / ssgd.second, 75.0 / 40, 0.1) << "pushes per second";
    EXPECT_GT(asgd.first / ssgd.first, 75.0 / 40 * 2) << "each is an update of its own";
    const SimulationResult result = run("ssgd", ServerNodes::kOwn);
    EXPECT_NEAR(result.servers.at(0).rx_bytes, 1600 * 1e5, 1);
    EXPECT_NEAR(result.servers.at(0).tx_bytes, 1600 * 1e5, 1);
    EXPECT_NEAR(run("ssgd", ServerNodes::kShared).servers.at(0).rx_bytes, 1400 * 1e5, 1)
        << "what stays on the node does not count";
    EXPECT_NEAR(result.worker_bytes.at(3), 200 * 2e5, 2e5);
    EXPECT_NEAR(result.worker_busy_s.at(3), 200 * 0.1, 0.1);
    EXPECT_NEAR(result.worker_wait_s.at(3), 200 * 0.1, 1);
}

}  // namespace
}  // namespace cohort
