#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cohort/sched/noise_scale.hpp"
#include "cohort/sched/plan.hpp"
#include "cohort/sched/update_engine.hpp"

namespace cohort {

/// Coefficients of the weighted sum of an update, in the order of its pushes: b w / sum of b for
/// gradients. A sample weighs the same in gradients and deltas: a delta of s local steps over b
/// samples was made with b/s samples a step, so it counts as their share of a reference batch; the
/// mean when they make up one or more.
/// @param steps  local steps of each push, [pushes]; not read for gradients
/// @param reference_batch  B, samples
[[nodiscard]] std::vector<double> sum_coefficients(const Fire& fire,
                                                   std::span<const std::int32_t> steps,
                                                   std::int64_t reference_batch);

/// The gradients of an update as the noise scale wants them: of two or more pushes, computed on the
/// same version, that are summed as they are. Empty for other updates: deltas, pushes of different
/// versions, and where weights or a compensation of delays are in the way.
[[nodiscard]] std::vector<GradientNorm> norms_of(const Fire& fire, const SyncPlan& plan);

}  // namespace cohort
