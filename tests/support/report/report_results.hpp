#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cohort/report/sweep_results.hpp"
#include "cohort/sim/simulation.hpp"

namespace cohort {

/// A run that reaches 88 % after `tta_s`, or does not for 0, with four workers of which the last
/// is slow, and a change of mode on the way.
inline SimulationResult make_test_result(const SimulateOptions& options, double tta_s) {
    SimulationResult result;
    result.options = option_values(resolved(options));
    result.command = command_text(resolved(options));
    const bool reached = tta_s > 0;
    const double end_s = reached ? tta_s : 400;
    result.stop_reason = reached ? "target" : "budget";
    result.virtual_s = end_s;
    result.samples_applied = static_cast<std::int64_t>(end_s * 1000);
    result.ideal_samples_s = 1250;
    result.updates = 100;
    result.events = 1000;
    result.digest = 7;
    result.accuracy = reached ? 0.881 : 0.85;
    if (reached) {
        result.tta_virtual_s = tta_s;
        result.samples_to_target = result.samples_applied;
    }
    constexpr int kEvaluations = 30;
    for (int i = 1; i <= kEvaluations; ++i) {
        const double share = static_cast<double>(i) / kEvaluations;
        result.evaluations.push_back(
            {.virtual_s = share * end_s,
             .samples_applied = static_cast<std::int64_t>(1000 * share * end_s),
             .accuracy = *result.accuracy * (1 - std::exp(-5 * share)),
             .loss = 1,
             .test_samples = 2000});
    }
    constexpr int kWorkers = 4;
    result.workers.resize(kWorkers);
    for (int worker = 0; worker < kWorkers; ++worker) {
        result.workers[static_cast<std::size_t>(worker)].pushes = 10;
        result.worker_cpu_s.push_back(10);
        result.worker_bytes.push_back(1e9);
        result.worker_wait_s.push_back(worker == 3 ? 0 : end_s / 2);
        const double step = worker == 3 ? 2 : 1;
        using Kind = LaneSpan::Kind;
        for (double time = 0; time < 20; time += 2) {
            const auto span = [&](Kind kind, double from, double to) {
                result.lanes.push_back({.worker = worker,
                                        .kind = kind,
                                        .begin_s = time + from * step,
                                        .end_s = time + to * step});
            };
            span(Kind::kPull, 0, 0.1);
            span(Kind::kInput, 0.1, 0.2);
            span(Kind::kCompute, 0.2, 0.8);
            span(Kind::kPush, 0.8, 1);
            if (worker != 3) {
                span(Kind::kWait, 1, 2);
            }
        }
    }
    result.servers.push_back({.node = 0,
                              .cpu_core_s = end_s / 4,
                              .rx_bytes = 2e9,
                              .tx_bytes = 3e9,
                              .busy_s = end_s / 4});
    result.switches.push_back({.from = "asgd",
                               .to = "ssgd",
                               .why = "a reason with <angles> & \"quotes\"",
                               .train_seconds = 9.5,
                               .in_force_s = 0.5});
    result.lag_histogram = {0, 1, 4, 9, 5, 1, 0, 0, 2};
    return result;
}

/// A sweep of modes x patterns x 3 seeds with all its results, in a folder. The second mode does
/// not reach the target under the second pattern.
inline SweepResults make_test_sweep(const std::string& folder,
                                    const std::vector<std::string>& modes) {
    SweepResults results;
    results.title = "A sweep & its <results>";
    results.patterns = {"healthy", "persistent:2"};
    results.seeds = {{1, 1}, {2, 2}, {3, 3}};
    for (std::size_t mode = 0; mode < modes.size(); ++mode) {
        results.modes.push_back({.name = modes[mode],
                                 .options = {{"mode", modes[mode]}},
                                 .role = mode == 2 ? "ours" : "",
                                 .cites = "Someone & others, 2020",
                                 .fixed = mode != 2});
        for (std::size_t pattern = 0; pattern < results.patterns.size(); ++pattern) {
            for (const ExperimentSeed& seed : results.seeds) {
                SimulateOptions options;
                options.data = "mine.h5";
                options.mode = "ssgd";
                options.pattern = results.patterns[pattern];
                options.seed = seed.seed;
                options.pattern_seed = seed.pattern_seed;
                options.target_accuracy = 0.88;
                options.samples = 400000;
                const double tta_s = 100 + 10 * static_cast<double>(mode) * (pattern == 0 ? 1 : 3) +
                                     static_cast<double>(seed.seed);
                const std::string out = folder + "/runs/" + modes[mode] + std::to_string(pattern) +
                                        std::to_string(seed.seed);
                const bool never = mode == 1 && pattern == 1 && seed.seed > 1;
                const SimulationResult result = make_test_result(options, never ? 0 : tta_s);
                write_result(out, result);
                RunRow row = make_row(result, out + "/" + kResultFile);
                row.mode = modes[mode];
                results.rows.push_back(std::move(row));
            }
        }
    }
    results.planned = static_cast<std::int64_t>(results.rows.size());
    return results;
}

}  // namespace cohort
