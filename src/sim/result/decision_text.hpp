#pragma once

#include <string>
#include <vector>

#include "cohort/sched/chooser.hpp"

namespace cohort {

// Lists of a decision as lines of a result file. What is read is what was written, to the last bit.

/// "3 5"
[[nodiscard]] std::string text_of_workers(const std::vector<int>& workers);
/// Errors: FileError.
[[nodiscard]] std::vector<int> workers_of_text(const std::string& text);

/// "static:7|8192|0.5|1|4096;ssgd|...": plan, samples_s, batch_efficiency, staleness_efficiency,
/// rate.
[[nodiscard]] std::string text_of_candidates(const std::vector<Candidate>& candidates);
/// Errors: FileError.
[[nodiscard]] std::vector<Candidate> candidates_of_text(const std::string& text);

}  // namespace cohort
