#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cohort/core/output.hpp"
#include "cohort/report/experiment.hpp"
#include "cohort/sched/target.hpp"
#include "cohort/sched/update_engine.hpp"
#include "cohort/sim/simulation.hpp"

namespace cohort {

/// A test result at the end of a run: accuracy, 0..1; of a regression R2.
struct Quality {
    double value = 0;
    bool regression = false;
};

/// A run's row in the table. All fields but the last repeat exactly.
struct RunRow {
    std::string mode;     ///< name of the mode in the experiment
    std::string pattern;  ///< name of the pattern in the experiment
    ExperimentSeed seed;
    double lr = 0;
    double target_accuracy = 0;  ///< 0: none
    double target_loss = 0;      ///< 0: none
    std::int64_t budget_samples = 0;
    std::string stop_reason;
    std::optional<double> tta_virtual_s;
    std::optional<std::int64_t> samples_to_target;
    double virtual_s = 0;
    Quality quality;
    std::int64_t samples = 0;                   ///< applied
    double samples_per_s = 0;                   ///< of virtual time
    std::optional<double> ideal_samples_per_s;  ///< SimulationResult::ideal_samples_s
    std::int64_t updates = 0;
    double lag_mean = 0;  ///< of applied pushes, reference batches
    double lag_max = 0;
    std::array<std::int64_t, kReturnReasons> returned{};  ///< samples, by ReturnReason
    // Of each worker, and of each server, on average, per second of virtual time.
    double worker_cpu = 0;         ///< core seconds of input work
    double worker_bytes = 0;       ///< sent and received
    double worker_wait = 0;        ///< share of time
    double server_cpu = 0;         ///< core seconds of updates
    double server_rx_bytes = 0;    ///< pushes
    double server_tx_bytes = 0;    ///< parameters
    double server_busy = 0;        ///< share of time
    std::int64_t switches = 0;     ///< to another mode
    std::int64_t regroupings = 0;  ///< changes of plan within a mode
    std::uint64_t events = 0;
    std::uint64_t digest = 0;
    std::string command;  ///< command that repeats the run
    std::string file;     ///< file with the run's result
    double wall_s = 0;
};

/// One line of the search for a learning rate.
struct TuningRow {
    std::string mode;
    double lr = 0;
    ExperimentSeed seed;
    std::optional<double> tta_virtual_s;
    double accuracy = 0;  ///< or R2
    bool chosen = false;  ///< the rate was chosen
    std::string command = {};
};

/// A sweep: its plan and its finished runs, by mode, pattern, seed.
struct SweepResults {
    std::string title;
    std::vector<ExperimentMode> modes;  ///< lr: the rate in use, or none
    std::vector<std::string> patterns;
    std::vector<ExperimentSeed> seeds;
    std::int64_t planned = 0;  ///< runs of the table
    /// Modes whose rates are not chosen yet: their rows, if any, have the rate of an earlier table.
    std::vector<std::string> waiting;
    std::vector<RunRow> rows;
    std::vector<TuningRow> tuning;
};

/// "Accuracy", or "R2" when networks learn targets: Quality of the rows.
[[nodiscard]] std::string quality_name(const SweepResults& results);

/// Modes whose chosen rate is the smallest or largest of three or more that were tried: a longer
/// list may have a better one.
[[nodiscard]] std::vector<std::string> modes_at_edge(const SweepResults& results);

/// The row of a result. @param file  file with the result
[[nodiscard]] RunRow make_row(const SimulationResult& result, const std::string& file);

/// One row per run; docs/sweeps.md has the columns.
[[nodiscard]] std::string results_csv(const SweepResults& results);
[[nodiscard]] std::string tuning_csv(const SweepResults& results);

/// Name of the table's file in a sweep's folder.
inline constexpr const char* kSweepFile = "results.h5";
/// Writes results.h5 ({"cohort-sweep", 1}), replaced as a whole or not at all. Errors: FileError.
/// No Hdf5Thread may exist.
void write_sweep_results(const OutputFile& file, const SweepResults& results);

/// By mode the learning rate of its rows in a sweep's results.h5; empty when that cannot be read.
[[nodiscard]] std::map<std::string, double> rates_of_table(const std::string& folder);

/// Reads results.h5 in a sweep's folder; the rows' numbers come from the runs' own results.
/// Errors: FileError. No Hdf5Thread may exist.
[[nodiscard]] SweepResults read_sweep_results(const std::string& folder);

/// SweepResults of single results, in order of appearance: a row for every set of options but seeds
/// and pattern, named by its mode and by the options that distinguish it from other rows of that
/// mode. Errors: FileError; UsageError for two results of one run.
[[nodiscard]] SweepResults results_of_files(const std::vector<std::string>& files);

}  // namespace cohort
