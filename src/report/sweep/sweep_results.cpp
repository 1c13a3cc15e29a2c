#include "cohort/report/sweep_results.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "core/scores.hpp"

namespace cohort {
namespace {

double mean_per_s(const std::vector<double>& values, double seconds) {
    return values.empty() || seconds <= 0 ? 0
                                          : std::accumulate(values.begin(), values.end(), 0.0) /
                                                static_cast<double>(values.size()) / seconds;
}

/// Mean over the servers of one of their numbers, per second.
double server_mean(const SimulationResult& result, double ServerUse::*number) {
    std::vector<double> values;
    for (const ServerUse& server : result.servers) {
        values.push_back(server.*number);
    }
    return mean_per_s(values, result.virtual_s);
}

/// A recorded option as a number; 0 when it is not one.
template <class T>
T number_of(const SimulationResult& result, const std::string& name) {
    const std::string text = option_of(result.options, name);
    T number{};
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

void set_lags(const SimulationResult& result, RunRow& row) {
    std::int64_t pushes = 0;
    double sum = 0;
    for (const WorkerReport& worker : result.workers) {
        pushes += worker.pushes;
        sum += worker.lag_sum;
        row.lag_max = std::max(row.lag_max, worker.lag_max);
    }
    row.lag_mean = pushes > 0 ? sum / static_cast<double>(pushes) : 0;
}

void set_demands(const SimulationResult& result, RunRow& row) {
    row.worker_cpu = mean_per_s(result.worker_cpu_s, result.virtual_s);
    row.worker_bytes = mean_per_s(result.worker_bytes, result.virtual_s);
    row.worker_wait = mean_per_s(result.worker_wait_s, result.virtual_s);
    row.server_cpu = server_mean(result, &ServerUse::cpu_core_s);
    row.server_rx_bytes = server_mean(result, &ServerUse::rx_bytes);
    row.server_tx_bytes = server_mean(result, &ServerUse::tx_bytes);
    row.server_busy = server_mean(result, &ServerUse::busy_s);
}

std::string first_of(const std::string& one, const std::string& other) {
    return one.empty() ? other : one;
}

}  // namespace

RunRow make_row(const SimulationResult& result, const std::string& file) {
    RunRow row;
    row.mode =
        first_of(option_of(result.options, "mode-schedule"), option_of(result.options, "mode"));
    row.pattern =
        first_of(option_of(result.options, "trace"), option_of(result.options, "pattern"));
    row.seed = {.seed = number_of<std::uint64_t>(result, "seed"),
                .pattern_seed = number_of<std::uint64_t>(result, "pattern-seed")};
    row.lr = number_of<double>(result, "lr");
    row.target_accuracy = number_of<double>(result, "target-accuracy");
    row.target_loss = number_of<double>(result, "target-loss");
    row.budget_samples = number_of<std::int64_t>(result, "samples");
    row.stop_reason = result.stop_reason;
    row.tta_virtual_s = result.tta_virtual_s;
    row.samples_to_target = result.samples_to_target;
    row.virtual_s = result.virtual_s;
    row.quality = {.value = result.accuracy.value_or(r_squared(result.loss)),
                   .regression = !result.accuracy};
    row.samples = result.samples_applied;
    row.samples_per_s =
        result.virtual_s > 0 ? static_cast<double>(result.samples_applied) / result.virtual_s : 0;
    row.ideal_samples_per_s = result.ideal_samples_s;
    row.updates = result.updates;
    set_lags(result, row);
    row.returned = result.accounts.returned;
    set_demands(result, row);
    row.regroupings = std::ranges::count_if(
        result.switches, [](const SwitchReport& change) { return change.same_mode(); });
    row.switches = static_cast<std::int64_t>(result.switches.size()) - row.regroupings;
    row.events = result.events;
    row.digest = result.digest;
    row.command = result.command;
    row.file = file;
    row.wall_s = result.wall_s;
    return row;
}

std::string quality_name(const SweepResults& results) {
    const bool regression = !results.rows.empty() && results.rows.front().quality.regression;
    return regression ? "R2" : "Accuracy";
}

std::vector<std::string> modes_at_edge(const SweepResults& results) {
    std::vector<std::string> names;
    for (const ExperimentMode& mode : results.modes) {
        std::vector<double> tried;
        std::optional<double> chosen;
        for (const TuningRow& row : results.tuning) {
            if (row.mode == mode.name) {
                tried.push_back(row.lr);
                chosen = row.chosen ? row.lr : chosen;
            }
        }
        if (chosen) {
            std::ranges::sort(tried);
            tried.erase(std::unique(tried.begin(), tried.end()), tried.end());
            constexpr std::size_t kFewest = 3;  // of fewer rates each lies at an end
            if (tried.size() >= kFewest && (*chosen == tried.front() || *chosen == tried.back())) {
                names.push_back(mode.name);
            }
        }
    }
    return names;
}

}  // namespace cohort
