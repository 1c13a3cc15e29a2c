#pragma once

#include <cstdint>

namespace cohort {

/// row = softmax(scale row); the logarithm of what divided e^(scale row).
/// @param scale  above 0
float softmax_row(float* row, std::int64_t count, float scale);

/// The same from that logarithm.
void softmax_again(float* row, std::int64_t count, float scale, float divisor);

/// From the gradient of the probabilities to that of the row, in place.
/// gradient = scale p (gradient - sum of p gradient)
void softmax_backward(const float* probabilities, std::int64_t count, float scale, float* gradient);

}  // namespace cohort
