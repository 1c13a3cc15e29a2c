#pragma once

#include <cstdint>
#include <vector>

#include "cohort/model/graph.hpp"
#include "cohort/optim/optimizer.hpp"
#include "train/bench/profile_measure.hpp"

namespace cohort {

/// CPU seconds of one server's thread in updates of the whole model and of an eighth of it, with
/// different numbers of pushes; units: bytes touched, (pushes + 4 + 1 copy released) times the
/// shard's. Medians over the repetitions. Errors: DeviceError when memory is short.
[[nodiscard]] std::vector<CostPoint> measure_updates(const Graph& graph,
                                                     const OptimizerOptions& optimizer,
                                                     std::int64_t repetitions);

}  // namespace cohort
