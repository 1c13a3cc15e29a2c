#include "cohort/sim/recorded_load.hpp"

#include <algorithm>
#include <filesystem>

#include "cohort/core/error.hpp"
#include "cohort/sim/oracle_predictor.hpp"
#include "cohort/sim/predictor_file.hpp"
#include "cohort/sim/simulation.hpp"

namespace cohort {
namespace {

int number(const RecordedLoad& load, std::string_view name) {
    return std::stoi(load.options.find(name)->second);
}

/// The run's cluster and what happened to it, as simulate() made them.
std::unique_ptr<Predictor> oracle_of(const RecordedLoad& load) {
    const auto text = [&](std::string_view name) { return load.options.find(name)->second; };
    const ClusterProfile profile = load_profile(text("profile"));
    const ClusterShape shape =
        spread_over_nodes(load.workers, number(load, "nodes"), number(load, "servers"),
                          text("server-nodes") == "own", load.healthy_iteration_s);
    std::unique_ptr<Scenario> scenario =
        text("trace").empty()
            ? make_pattern(text("pattern"), shape, std::stoull(text("pattern-seed")))
            : make_scenario(read_trace(text("trace")));
    return make_oracle_predictor(std::move(scenario), shape, profile,
                                 profile.workload(text("time-as")), load.batch);
}

}  // namespace

RecordedLoad read_recorded_load(const std::string& folder) {
    const std::string file = (std::filesystem::path(folder) / kResultFile).string();
    SimulationResult result = read_result(file);
    if (result.records.empty()) {
        fail<FileError>({.where = file,
                         .what = "the run was not recorded",
                         .hint = "cohort simulate --record-load"});
    }
    RecordedLoad load;
    load.options.insert(result.options.begin(), result.options.end());
    load.workers = number(load, "workers");
    load.batch = number(load, "batch");
    load.what = load.options["trace"].empty() ? load.options["pattern"] : load.options["trace"];
    load.healthy_iteration_s = result.healthy_iteration_s;
    load.records = std::move(result.records);
    return load;
}

std::vector<PredictorSeries> series_of(const RecordedLoad& load) {
    std::vector<std::vector<IterationRecord>> of_worker(static_cast<std::size_t>(load.workers));
    for (const IterationRecord& record : load.records) {
        of_worker.at(static_cast<std::size_t>(record.worker)).push_back(record);
    }
    std::vector<PredictorSeries> series;
    for (const std::vector<IterationRecord>& records : of_worker) {
        series.push_back(predictor_series(records, load.batch));
    }
    return series;
}

std::unique_ptr<Predictor> make_replay_predictor(const RecordedLoad& load, std::string_view name,
                                                 const std::string& model_file) {
    if (name == kOraclePredictor) {
        return oracle_of(load);
    }
    ChooserOptions options;
    options.predictor = name;
    options.predictor_file = model_file;
    return make_run_predictor(options, load.workers, load.batch);
}

}  // namespace cohort
