#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cohort/sched/noise_scale.hpp"
#include "cohort/sched/plan.hpp"
#include "cohort/sched/update_engine.hpp"

namespace cohort {

/// Coefficients of the weighted sum of an update, in the order of its pushes: b w / sum of b for
/// gradients. A sample has the same weight in gradients and deltas: a delta of s local steps over b
/// samples was made with b/s samples per step, so its coefficient is b/s as a share of a reference
/// batch. When the deltas of the update add up to one reference batch or more, the result is their
/// mean.
/// @param steps  local steps of each push, [pushes]; not read for gradients
/// @param reference_batch  B, samples
[[nodiscard]] std::vector<double> sum_coefficients(const Fire& fire,
                                                   std::span<const std::int32_t> steps,
                                                   std::int64_t reference_batch);

/// f: what an update of so many samples is worth in reference batches, by the plan's rule. Deltas
/// have had their learning rate already.
/// @param noise_scale  phi, samples; 0: not known
[[nodiscard]] double update_fraction(const SyncPlan& plan, Work work, std::int64_t samples,
                                     std::int64_t reference_batch, double noise_scale) noexcept;

/// The gradients of an update for the noise scale: those of two or more pushes computed on the same
/// version and summed unchanged. Empty for other updates: deltas, pushes of different versions,
/// updates with weights or delay compensation.
[[nodiscard]] std::vector<GradientNorm> norms_of(const Fire& fire, const SyncPlan& plan);

}  // namespace cohort
