#pragma once

#include <memory>

#include "cohort/sched/policy.hpp"

namespace cohort {

/// Makes the policy of a mode that changes plans or batches while it runs.
using PolicyMaker = std::unique_ptr<ModePolicy>(Mode mode, const ModeSetting& setting);

[[nodiscard]] PolicyMaker make_ssgd_or_asgd_policy;
[[nodiscard]] PolicyMaker make_star_policy;
[[nodiscard]] PolicyMaker make_star_exact_policy;
[[nodiscard]] PolicyMaker make_star_ml_policy;
/// The policy of a mode, which also measures what its plans achieve (ModePolicy::take_windows).
[[nodiscard]] PolicyMaker make_recording_policy;

/// saps:auto: D in reference batches for a noise scale, all in samples.
[[nodiscard]] double lag_bound_of(double noise_scale, double batch, double reference_batch);

}  // namespace cohort
