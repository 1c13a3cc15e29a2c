#pragma once

#include <string>

#include "cohort/sched/chooser.hpp"

namespace cohort {

/// A decision as a JSON object: metrics.jsonl and `cohort simulate --json` write the same.
[[nodiscard]] std::string decision_json(const DecisionRecord& decision);

}  // namespace cohort
