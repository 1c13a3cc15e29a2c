#include "cohort/sim/recorded_load.hpp"

#include <cmath>
#include <filesystem>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "cohort/sim/oracle_predictor.hpp"
#include "cohort/sim/predictor_file.hpp"
#include "cohort/sim/simulation.hpp"

namespace cohort {
namespace {

int number(const RecordedLoad& load, std::string_view name) {
    return std::stoi(load.options.find(name)->second);
}

void add_noise(std::vector<IterationRecord>& records, double deviation, Rng random) {
    const auto scale = [&](double& number) {
        number *= std::exp(deviation * static_cast<double>(random.next_normal()));
    };
    for (IterationRecord& record : records) {
        for (double* part : {&record.input_s, &record.compute_s, &record.push_s, &record.pull_s,
                             &record.use.rx_bytes_s, &record.use.tx_bytes_s}) {
            scale(*part);
        }
    }
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

std::vector<PredictorSeries> series_of(const RecordedLoad& load, const RecordNoise& noise) {
    std::vector<std::vector<IterationRecord>> of_worker(static_cast<std::size_t>(load.workers));
    for (const IterationRecord& record : load.records) {
        of_worker.at(static_cast<std::size_t>(record.worker)).push_back(record);
    }
    std::vector<PredictorSeries> series;
    for (std::size_t worker = 0; worker < of_worker.size(); ++worker) {
        if (noise.deviation > 0 && worker % 2 == 1) {
            add_noise(of_worker[worker], noise.deviation,
                      Rng(noise.seed, RngPurpose::kPattern, worker));
        }
        series.push_back(predictor_series(of_worker[worker], load.batch));
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
