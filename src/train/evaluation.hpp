#pragma once

#include <functional>
#include <optional>

#include "cohort/data/loader.hpp"
#include "cohort/model/replica.hpp"
#include "cohort/train/events.hpp"

namespace cohort {

/// Runs the whole set of `loader` through `replica` in inference mode.
/// @param abandon asked before every batch and while waiting for one; true gives std::nullopt
[[nodiscard]] std::optional<EvaluationReport> evaluate_all(Replica& replica, Loader& loader,
                                                           std::int64_t batch,
                                                           const std::function<bool()>& abandon);

}  // namespace cohort
