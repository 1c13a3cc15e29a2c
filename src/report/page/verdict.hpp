#pragma once

#include <string>
#include <vector>

#include "cohort/report/comparison.hpp"

namespace cohort {

/// What the numbers say, a sentence for each judged mode, losers named; then how far the intervals
/// can be trusted. Empty: there is nothing to compare.
[[nodiscard]] std::vector<std::string> verdicts(const SweepResults& results,
                                                const Comparison& comparison);

}  // namespace cohort
