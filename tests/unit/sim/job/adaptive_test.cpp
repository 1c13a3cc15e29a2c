// The adaptive chooser in virtual runs, with leases, transfers and telemetry as jobs have them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/sim/virtual_runs.hpp"

namespace cohort::test {
namespace {

using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::SizeIs;

SimulateOptions job(const std::string& mode, const std::string& pattern) {
    SimulateOptions o;
    o.no_train = true;
    o.time_as = "resnet50";
    o.servers = 8;
    o.mode = mode;
    o.pattern = pattern;
    o.samples = 100'000;
    return o;
}

double pace(const SimulationResult& result) {
    return static_cast<double>(result.samples_applied) / result.virtual_s;
}

/// Not to wait for the last one makes more and smaller updates of as many samples, from the first
/// update on.
TEST(AdaptiveRun, AHealthyClusterKeepsItsPace) {
    const SimulationResult adaptive = simulate(job("adaptive", "healthy"), {});
    EXPECT_THAT(adaptive.switches, IsEmpty());
    EXPECT_EQ(adaptive.updates, simulate(job("quorum:7", "healthy"), {}).updates);
    const double ssgd = pace(simulate(job("ssgd", "healthy"), {}));
    EXPECT_NEAR(pace(adaptive), ssgd, 0.01 * ssgd);
}

TEST(AdaptiveRun, StragglersOfAllKindsAreAnswered) {
    const std::vector<std::pair<std::string, double>> gains{
        {"persistent:2", 1.5}, {"delay:2", 1.6},  {"half:2", 1.25},
        {"transient:5", 1.15}, {"onoff:3", 1.15}, {"storm", 1}};
    for (const auto& [pattern, gain] : gains) {
        const SimulationResult adaptive = simulate(job("adaptive", pattern), {});
        EXPECT_GT(pace(adaptive), gain * pace(simulate(job("ssgd", pattern), {}))) << pattern;
    }
}

TEST(AdaptiveRun, RingsToo) {
    for (const std::string pattern : {"persistent:2", "delay:3"}) {
        SimulateOptions adaptive = job("adaptive", pattern);
        SimulateOptions ring = job("ring", pattern);
        for (SimulateOptions* o : {&adaptive, &ring}) {
            o->arch = Architecture::kRing;
            o->servers = 0;
        }
        EXPECT_GT(pace(simulate(adaptive, {})), 1.3 * pace(simulate(ring, {}))) << pattern;
    }
}

/// Iterations of 0.1 s; late workers take 50 times as long from 5 s on, for one of them or for all.
SimulateOptions with_late_workers(VirtualRuns& runs, const std::vector<int>& late, double until_s) {
    for (const auto& [time_s, share] :
         std::vector<std::pair<double, double>>{{0, 1}, {5, 0.02}, {until_s, 1}}) {
        for (const int worker : late) {
            runs.rows.push_back({.time_s = time_s,
                                 .target = {TraceTarget::Kind::kWorker, worker},
                                 .shares = {.device = share}});
        }
    }
    SimulateOptions o = runs.options("adaptive", 8, 100'000);
    o.servers = 8;
    o.virtual_limit_s = 15;
    return o;
}

/// One more than the first plan leaves behind.
TEST(AdaptiveRun, TheOthersAreFreedWhileThreeWorkersAreLate) {
    VirtualRuns runs;
    const SimulationResult late = simulate(with_late_workers(runs, {1, 2, 3}, 1000), {});
    ASSERT_THAT(late.switches, SizeIs(Ge(1U)));
    EXPECT_LT(late.switches.front().train_seconds, 5 + 2 * 0.1) << "within two usual iterations";
    for (const std::size_t worker : {0U, 7U}) {
        EXPECT_GT(late.workers[worker].pushes, 0.93 * (50 + 98)) << worker;
    }
}

/// It comes back once, 5 s late: that push counts, and it goes on as before.
TEST(AdaptiveRun, ALatePushIsNotLost) {
    VirtualRuns runs;
    const SimulationResult late = simulate(with_late_workers(runs, {3}, 10), {});
    EXPECT_EQ(late.accounts.returned_for(ReturnReason::kDropped), 0);
    EXPECT_EQ(late.accounts.returned_for(ReturnReason::kInterrupted), 0);
    EXPECT_GT(late.workers[3].pushes, 50 + 35);
    EXPECT_EQ(late.digest, simulate(with_late_workers(runs, {3}, 10), {}).digest);
}

/// Nobody there knows who is late before the round is over.
TEST(AdaptiveRun, RingsAreAskedAfterTheRound) {
    VirtualRuns runs;
    SimulateOptions ring = with_late_workers(runs, {3}, 1000);
    ring.arch = Architecture::kRing;
    ring.servers = 0;
    const SimulationResult late = simulate(ring, {});
    ASSERT_THAT(late.switches, SizeIs(Ge(1U)));
    EXPECT_GT(late.switches.front().train_seconds, 5 + 49 * 0.1);
}

}  // namespace
}  // namespace cohort::test
