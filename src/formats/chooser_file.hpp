#pragma once

#include <memory>
#include <string>

#include "cohort/sched/chooser_options.hpp"
#include "cohort/sched/named_weights.hpp"

namespace cohort {

/// `--chooser-file` of a run that begins with RateRegressor::start_weights().
inline constexpr const char* kNoChooserFile = "none";

/// The weights of a file (as to_toml writes it) for a RateRegressor; of the empty one those that
/// Cohort brings along; null for kNoChooserFile. Errors: FileError naming file and line, or a term
/// that is missing or that the program does not know.
[[nodiscard]] std::shared_ptr<const NamedWeights> load_rate_weights(const std::string& file);

/// Fills in what efficiency_file and chooser_file hold. Errors: FileError.
void load_chooser_files(ChooserOptions& options);

}  // namespace cohort
