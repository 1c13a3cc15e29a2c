// The adaptive chooser in virtual runs, with leases, transfers and telemetry as jobs have them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/virtual_runs.hpp"

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

TEST(AdaptiveRun, AHealthyClusterRunsSsgd) {
    const SimulationResult adaptive = simulate(job("adaptive", "healthy"), {});
    EXPECT_THAT(adaptive.switches, IsEmpty());
    EXPECT_EQ(adaptive.virtual_s, simulate(job("ssgd", "healthy"), {}).virtual_s);
}

TEST(AdaptiveRun, StragglersOfAllKindsAreAnswered) {
    const std::vector<std::pair<std::string, double>> gains{
        {"persistent:2", 1.5}, {"delay:2", 1.6},  {"half:2", 1.25},
        {"transient:5", 1.15}, {"onoff:3", 1.15}, {"storm", 1}};
    for (const auto& [pattern, gain] : gains) {
        const SimulationResult adaptive = simulate(job("adaptive", pattern), {});
        EXPECT_GT(pace(adaptive), gain * pace(simulate(job("ssgd", pattern), {}))) << pattern;
        EXPECT_THAT(adaptive.switches, SizeIs(Ge(1U))) << pattern;
    }
}

TEST(AdaptiveRun, RingsToo) {
    for (const std::string pattern : {"persistent:2", "delay:3"}) {
        SimulateOptions adaptive = job("adaptive", pattern);
        SimulateOptions ring = job("ring", pattern);
        for (SimulateOptions* o : {&adaptive, &ring}) {
            o->arch = "ring";
            o->servers = 0;
        }
        EXPECT_GT(pace(simulate(adaptive, {})), 1.3 * pace(simulate(ring, {}))) << pattern;
    }
}

TEST(AdaptiveRun, IsRepeatable) {
    for (const std::string mode : {"adaptive", "star-ml"}) {
        const SimulationResult first = simulate(job(mode, "storm"), {});
        EXPECT_EQ(first.digest, simulate(job(mode, "storm"), {}).digest) << mode;
    }
}

}  // namespace
}  // namespace cohort::test
