#pragma once

#include <memory>
#include <string>

#include "cohort/sched/efficiency.hpp"

namespace cohort {

/// The text of a file of weights (TOML): where they come from, and the weight of each term.
[[nodiscard]] std::string to_toml(const NamedWeights& named);

/// The coefficients of a file; of the empty one those that Cohort brings along. Errors: FileError
/// naming file and line, or a term that the program does not know.
[[nodiscard]] std::shared_ptr<const EfficiencyCoefficients> load_efficiency(
    const std::string& file);

}  // namespace cohort
