#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cohort/report/experiment.hpp"
#include "cohort/report/sweep_results.hpp"
#include "cohort/sim/simulation.hpp"
#include "report/sweep/sweep_plan.hpp"

namespace cohort {

/// How a sweep is carried out.
struct SweepSettings {
    std::string out;                         ///< its folder
    int jobs = 1;                            ///< runs at a time, each on one core
    std::string program = "/proc/self/exe";  ///< that has the command `simulate`
};

/// Where a sweep stands.
struct SweepProgress {
    bool tuning = false;    ///< rates are being chosen; else the table's runs
    std::size_t done = 0;   ///< runs of the whole sweep with a result, failed ones too
    std::size_t total = 0;  ///< of the whole sweep
    std::size_t running = 0;
    std::size_t failed = 0;
    double eta_s = -1;  ///< until the end by the pace so far; negative: not known
};

/// A run without a result.
struct FailedRun {
    std::string key;
    int code = 0;            ///< exit code; 128 and the signal's number
    std::string last_lines;  ///< that it wrote
    std::string log;         ///< file that has all of them
};

struct SweepHooks {
    /// A run's options as `cohort simulate` understands them. Errors: UsageError.
    std::function<SimulateOptions(const PlannedRun&)> options;
    std::function<void(const SweepProgress&)> progress;  ///< several times per second
    std::function<void(const FailedRun&)> failed;
    std::function<bool()> stop_requested;  ///< ends all runs; what is finished stays
};

struct SweepOutcome {
    SweepResults results;
    std::vector<FailedRun> failed;
    std::size_t found = 0;  ///< runs that were there already
    bool stopped = false;
};

/// Every run of an experiment whose options cannot be used, and every data set, profile and trace
/// that is missing, damaged or does not fit, is an error now, not after hours. No Hdf5Thread may be
/// there. Errors: UsageError naming the run, FileError.
void check_experiment(const Experiment& experiment, const SweepHooks& hooks);

/// Does what is missing in the folder, the search for learning rates first, and writes
/// results.csv, results.h5 and tuning.csv of what there is then. A run is there when its result
/// can be read, was not cut short by a signal, and has the options that are wanted. Deterministic
/// but for the columns of the real clock, however often it was stopped and called again.
/// Errors: UsageError (another sweep writes here), FileError, DeviceError (no more processes).
[[nodiscard]] SweepOutcome run_sweep(const Experiment& experiment, const SweepSettings& settings,
                                     const SweepHooks& hooks);

/// The row of a run that is there; none otherwise. @param folder of the sweep
[[nodiscard]] std::optional<RunRow> find_run(const std::string& folder,
                                             const Experiment& experiment, const PlannedRun& run,
                                             const SweepHooks& hooks);

}  // namespace cohort
