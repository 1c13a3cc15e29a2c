#pragma once

#include <span>

#include "cohort/optim/optimizer.hpp"

namespace cohort {

/// The distance that heavy ball with normalised velocity u still moves over the next `lag`
/// reference batches without new gradients, as a factor of u: eta m (1-m^lag) / (1-m)^2.
[[nodiscard]] double look_ahead_factor(double lr, double momentum, double lag);

/// out = the parameters a server will have after `lag` more reference batches, theta moved along
/// `state`; theta itself for lag 0. `out` may be theta. Host memory.
/// Errors: ShapeError for unequal sizes.
void look_ahead(std::span<const float> theta, const LookAhead& state, double lr, double lag,
                std::span<float> out);

}  // namespace cohort
