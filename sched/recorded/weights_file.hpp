#pragma once

#include <memory>
#include <string>

#include "cohort/sched/named_weights.hpp"

namespace cohort {

/// The text of a file of weights (TOML): where they come from, and the weight of each term.
[[nodiscard]] std::string to_toml(const NamedWeights& named);

/// `--chooser-file` of a run that begins with RateRegressor::start_weights().
inline constexpr const char* kNoChooserFile = "none";

/// The weights of a file (as to_toml writes it) for a RateRegressor; of the empty one those that
/// Cohort brings along; null for kNoChooserFile. Errors: FileError naming file and line, or a term
/// that is missing or that the program does not know.
[[nodiscard]] std::shared_ptr<const NamedWeights> load_rate_weights(const std::string& file);

}  // namespace cohort
