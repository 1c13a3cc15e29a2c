#include "sim/result/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "cohort/core/wire.hpp"
#include "cohort/sched/job_limits.hpp"
#include "cohort/sim/simulation.hpp"
#include "data/text/csv_text.hpp"
#include "sched/recorded/predictor_file.hpp"
#include "sched/recorded/recorded_load.hpp"
#include "sim/scenario/oracle_predictor.hpp"

namespace cohort {
namespace {

const std::string& text(const RecordedLoad& load, std::string_view name) {
    const auto found = load.options.find(name);
    if (found == load.options.end()) {
        fail<FileError>({.where = load.file,
                         .what = fmt::format("the run's --{} is not recorded", name),
                         .hint = "record the run anew: cohort simulate --record-load"});
    }
    return found->second;
}

/// @return a whole number
template <class Number>
Number number(const RecordedLoad& load, std::string_view name) {
    const std::string& said = text(load, name);
    const std::optional<Number> value = parsed<Number>(said);
    if (!value) {
        fail<FileError>({.where = load.file,
                         .what = fmt::format("the run's --{} is not a whole number", name),
                         .got = said});
    }
    return *value;
}

/// What a result says must fit together before it is used to count and to index.
void check(const RecordedLoad& load, double end_s) {
    const auto refuse = [&load](std::string_view what, const std::string& expected) {
        fail<FileError>({.where = load.file, .what = what, .expected = expected});
    };
    if (!kWorkersLimits.contain(load.workers) || !kBatchLimits.contain(load.batch)) {
        refuse("the run's --workers or --batch is out of range",
               fmt::format("{}, {}", kWorkersLimits.text(), kBatchLimits.text()));
    }
    if (std::any_of(load.records.begin(), load.records.end(), [&load](const auto& record) {
            return record.worker < 0 || record.worker >= load.workers;
        })) {
        refuse("a record of a worker that the run did not have",
               fmt::format("workers 0 to {}", load.workers - 1));
    }
    const Limits<double> lengths{.least = 1e-9, .most = kSecondsLimits.most};
    if (!lengths.contain(load.healthy_iteration_s)) {
        refuse("a healthy iteration of an impossible length", lengths.text() + " s");
    }
    const Limits<double> moments{.least = 0, .most = std::nextafter(end_s, 2 * end_s)};
    for (const IterationRecord& record : load.records) {
        if (!moments.contain(record.arrived_s)) {
            refuse("a record from outside of the run", moments.text() + " s");
        }
        check_record(record, load.file);
    }
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
    const ClusterProfile profile = load_profile(text(load, "profile"));
    const ClusterShape shape =
        spread_over_nodes(load.workers, number<int>(load, "nodes"), number<int>(load, "servers"),
                          text(load, "server-nodes") == "own", load.healthy_iteration_s);
    std::unique_ptr<Scenario> scenario =
        text(load, "trace").empty() ? make_pattern(text(load, "pattern"), shape,
                                                   number<std::uint64_t>(load, "pattern-seed"))
                                    : read_scenario(text(load, "trace"), shape,
                                                    number<std::uint64_t>(load, "pattern-seed"));
    Workload on_wire = profile.workload(text(load, "time-as"));
    const auto wire = load.options.find("wire");  // results of before the option do without
    if (wire != load.options.end() && wire->second == word_of(Wire::kBf16)) {
        on_wire.parameter_bytes *= static_cast<double>(wire_bytes(Wire::kBf16)) / sizeof(float);
    }
    return make_oracle_predictor(std::move(scenario), shape, profile, on_wire, load.batch);
}

}  // namespace

RecordedLoad read_recorded_load(const std::string& path) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(path, ignored)) {
        return parse_recorded_load(path);
    }
    const std::string file = (std::filesystem::path(path) / kResultFile).string();
    SimulationResult result = read_result(file);
    if (result.records.empty()) {
        fail<FileError>({.where = file,
                         .what = "the run was not recorded",
                         .hint = "cohort simulate --record-load"});
    }
    RecordedLoad load;
    load.file = file;
    load.options.insert(result.options.begin(), result.options.end());
    load.workers = number<int>(load, "workers");
    load.batch = number<std::int64_t>(load, "batch");
    const std::string& trace = text(load, "trace");
    load.what = trace.empty() ? text(load, "pattern") : trace;
    load.healthy_iteration_s = result.healthy_iteration_s;
    load.records = std::move(result.records);
    check(load, result.virtual_s);
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
