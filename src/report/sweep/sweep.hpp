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
    std::string out;  ///< its folder
    int jobs = 1;     ///< runs at a time, each on one core
    /// Program with the command `simulate`: its path, then words that come before the command.
    std::vector<std::string> program = {"/proc/self/exe"};
};

/// Progress of a sweep.
struct SweepProgress {
    bool tuning = false;    ///< rates are being chosen; else the table's runs
    std::size_t done = 0;   ///< runs of the whole sweep with a result, failed ones too
    std::size_t total = 0;  ///< runs of the whole sweep
    std::size_t running = 0;
    std::size_t failed = 0;
    double eta_s = -1;  ///< seconds until the end at the present speed; negative: not known
};

/// A run without a result.
struct FailedRun {
    std::string key;
    int code = 0;            ///< exit code; 128 and the signal's number
    std::string last_lines;  ///< last lines of its output
    std::string log;         ///< file with its whole output
};

struct SweepHooks {
    /// A run's options as `cohort simulate` understands them. Errors: UsageError.
    std::function<SimulateOptions(const PlannedRun&)> options;
    std::function<void(const SweepProgress&)> progress;  ///< several times per second
    std::function<void(const FailedRun&)> failed;
    std::function<bool()> stop_requested;  ///< true ends all runs; finished runs stay
};

struct SweepOutcome {
    SweepResults results;
    std::vector<FailedRun> failed;
    std::size_t found = 0;  ///< runs that were finished before
    bool stopped = false;
};

/// Checks the options of all runs of an experiment, and every data set, profile and trace, so that
/// errors are found now and not after hours. No Hdf5Thread may exist. Errors: UsageError naming the
/// run, FileError.
void check_experiment(const Experiment& experiment, const SweepHooks& hooks);

/// Carries out the runs missing in the folder, the search for learning rates first, and writes
/// results.csv, results.h5 and tuning.csv. A run is finished when its result can be read, was not
/// cut short by a signal, and has the requested options. Deterministic except for the columns of
/// the real clock, however often the sweep was stopped and continued. Errors: UsageError (another
/// sweep writes here), FileError, DeviceError (no more processes).
[[nodiscard]] SweepOutcome run_sweep(const Experiment& experiment, const SweepSettings& settings,
                                     const SweepHooks& hooks);

/// The row of a finished run; none otherwise. @param folder  of the sweep
[[nodiscard]] std::optional<RunRow> find_run(const std::string& folder,
                                             const Experiment& experiment, const PlannedRun& run,
                                             const SweepHooks& hooks);

}  // namespace cohort
