#pragma once

#include <memory>
#include <string>

#include "cohort/sched/chooser_options.hpp"
#include "cohort/sched/efficiency.hpp"
#include "cohort/sched/named_weights.hpp"

namespace cohort {

/// The text of a file of weights (TOML): where they come from, and the weight of each term.
[[nodiscard]] std::string to_toml(const NamedWeights& named);

/// The coefficients of a file; of the empty one those that Cohort brings along. Errors: FileError
/// naming file and line, or a term that the program does not know.
[[nodiscard]] std::shared_ptr<const EfficiencyCoefficients> load_efficiency(
    const std::string& file);

/// `--chooser-file` of a run that begins with RateRegressor::start_weights().
inline constexpr const char* kNoChooserFile = "none";

/// The weights of a file (as to_toml writes it) for a RateRegressor; of the empty one those that
/// Cohort brings along; null for kNoChooserFile. Errors: FileError naming file and line, or a term
/// that is missing or that the program does not know.
[[nodiscard]] std::shared_ptr<const NamedWeights> load_rate_weights(const std::string& file);

/// Fills in what efficiency_file and chooser_file hold. Errors: FileError.
void load_chooser_files(ChooserOptions& options);

}  // namespace cohort
