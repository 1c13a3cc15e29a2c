#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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

/// What the pushes of an update say for the noise scale, beside the norm of their mean.
struct FireNorms {
    double squares = 0;        ///< mean of |g_p|^2
    double inverse_batch = 0;  ///< mean of 1/b_p
    double samples = 0;        ///< sum of b_p
};
/// Two batch sizes are needed for the noise scale: those of the pushes and that of their sum.
/// Nothing for updates that have only one, for deltas, and where weights are in the way.
[[nodiscard]] std::optional<FireNorms> norms_of(const Fire& fire);

}  // namespace cohort
