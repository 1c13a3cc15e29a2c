// The timing model against virtual runs: paces and lags from nothing but the workers' own times.
#include <gtest/gtest.h>

#include "cohort/sched/timing.hpp"
#include "cohort/sim/simulation.hpp"

namespace cohort {
namespace {

constexpr int kWorkers = 8;

struct Pace {
    double samples_s = 0;
    double lag = 0;
};

SimulationResult run(const std::string& mode, const std::string& pattern) {
    SimulateOptions options;
    options.workers = kWorkers;
    options.servers = kWorkers;
    options.mode = mode;
    options.pattern = pattern;
    options.samples = 100'000;
    options.no_train = true;
    options.record_load = true;
    return simulate(options, [](const SimulationProgress&) { return false; });
}

Pace measured(const SimulationResult& result) {
    double lags = 0;
    double pushes = 0;
    for (const WorkerReport& worker : result.workers) {
        lags += worker.lag_sum;
        pushes += static_cast<double>(worker.pushes);
    }
    return {.samples_s = static_cast<double>(result.samples_applied) / result.virtual_s,
            .lag = lags / pushes};
}

PlanTiming modelled(const std::string& mode, const SimulationResult& result) {
    std::vector<double> own_s(kWorkers, 0);
    std::vector<int> records(kWorkers, 0);
    for (const IterationRecord& record : result.records) {
        own_s[static_cast<std::size_t>(record.worker)] += record.own_s();
        ++records[static_cast<std::size_t>(record.worker)];
    }
    for (std::size_t i = 0; i < own_s.size(); ++i) {
        own_s[i] /= records[i];
    }
    const ModeSetting setting{.live = std::vector<bool>(kWorkers, true),
                              .batch = SimulateOptions().batch,
                              .own_seconds = own_s};
    const std::vector<std::int64_t> batches(kWorkers, setting.batch);
    return time_plan(make_plan(mode, setting), own_s, batches, reference_batch_of(setting));
}

class Paces : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Modes, Paces,
                         testing::Values("ssgd", "asgd", "static:4", "static:7", "dynamic",
                                         "backup:1", "ssp:3", "saps:2"));

TEST_P(Paces, AreTold) {
    constexpr double kClose = 0.05;
    for (const char* pattern : {"persistent", "half", "delay"}) {
        const SimulationResult result = run(GetParam(), pattern);
        const Pace real = measured(result);
        const PlanTiming told = modelled(GetParam(), result);
        EXPECT_NEAR(told.samples_s, real.samples_s, kClose * real.samples_s) << pattern;
        EXPECT_NEAR(told.mean_lag, real.lag, 0.02) << pattern;
    }
}

}  // namespace
}  // namespace cohort
