#pragma once

#include "cohort/optim/optimizer.hpp"

namespace cohort {

/// The optimizer's state in sizes of the parameters: a velocity, or two moments.
[[nodiscard]] constexpr int state_sizes(OptimizerKind optimizer) noexcept {
    return optimizer == OptimizerKind::kAdamW ? 2 : 1;
}

/// Memory traffic of an update in sizes of the parameters, besides one per gradient that is summed
/// and per copy that is made: parameters and the optimizer's state are read and written.
[[nodiscard]] constexpr double update_passes(OptimizerKind optimizer) noexcept {
    return 2 + 2.0 * state_sizes(optimizer);
}

}  // namespace cohort
