#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cohort/report/experiment.hpp"
#include "cohort/report/sweep_results.hpp"

namespace cohort {

/// One `cohort simulate` of an experiment.
struct PlannedRun {
    std::size_t mode = 0;  ///< index in Experiment::modes
    std::string pattern;   ///< name of the pattern
    ExperimentSeed seed;
    std::optional<double> lr;  ///< none: the job's
    OptionList options;        ///< all options of the experiment for this run, sorted by name
    /// Name of its folder: readable, and a hash over the options and the contents of the trace and
    /// profile files among them. Two runs with equal options have the same.
    std::string key;
};

/// The runs that choose the learning rates: modes with several, by mode, rate, seed.
[[nodiscard]] std::vector<PlannedRun> plan_tuning(const Experiment& experiment);

/// The runs of the table, by mode, pattern, seed.
/// @param rates  of each mode, in order; a mode that has none although it has several to choose
///               from (its tuning is incomplete) gets no runs
[[nodiscard]] std::vector<PlannedRun> plan_table(const Experiment& experiment,
                                                 const std::vector<std::optional<double>>& rates);

/// Command line after `cohort simulate`.
[[nodiscard]] std::vector<std::string> arguments_of(const PlannedRun& run);

/// @param row  of this run, which has a learning rate of its own
[[nodiscard]] TuningRow tuning_row(const PlannedRun& run, const RunRow& row);

/// The rule by which rates are chosen: smallest median time to the target over the seeds (not
/// reached counts as infinite); among equals the highest median accuracy at the end, then the first
/// of the list. A mode with one rate or none keeps it. None: results of the mode are missing.
[[nodiscard]] std::vector<std::optional<double>> choose_rates(
    const Experiment& experiment, const std::vector<TuningRow>& results);

}  // namespace cohort
