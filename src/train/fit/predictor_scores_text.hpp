#pragma once

#include <span>
#include <string>

#include "cohort/sched/predictor.hpp"

namespace cohort {

/// The scores of a run's predictor, one entry per horizon, as a JSON array; "[]" when there are
/// none.
[[nodiscard]] std::string predictor_scores_json(std::span<const PredictorScore> scores);
/// The same for people, in a line; empty when there are none.
[[nodiscard]] std::string predictor_scores_line(std::span<const PredictorScore> scores);

}  // namespace cohort
