#pragma once

#include <string>
#include <vector>

#include "cohort/report/experiment.hpp"
#include "cohort/sim/simulation.hpp"
#include "report/sweep/sweep_plan.hpp"

namespace cohort {

/// The options of `cohort simulate`, parsed as its command line would be.
/// Errors: CLI::ParseError, UsageError.
[[nodiscard]] SimulateOptions parse_simulate(const std::vector<std::string>& arguments);
/// What is wrong with one option of an experiment; empty: nothing.
[[nodiscard]] std::string check_simulate_option(const std::string& name, const std::string& value);
/// The options of a planned run, checked. Errors: UsageError.
[[nodiscard]] SimulateOptions options_of_run(const PlannedRun& run);
/// Options in place of an experiment's own, each "name=value". Errors: UsageError.
[[nodiscard]] OptionList overrides_of(const std::vector<std::string>& words);

}  // namespace cohort
