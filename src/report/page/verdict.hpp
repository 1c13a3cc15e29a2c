#pragma once

#include <string>
#include <vector>

#include "cohort/report/comparison.hpp"

namespace cohort {

/// The results in words: a sentence for each judged mode, with the patterns and modes where it
/// loses; then a note on the reliability of the intervals. Empty: nothing to compare.
[[nodiscard]] std::vector<std::string> verdicts(const SweepResults& results,
                                                const Comparison& comparison);

}  // namespace cohort
