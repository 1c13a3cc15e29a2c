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

/// The largest element; NaN where the first is NaN.
[[nodiscard]] float largest_of(const float* row, std::int64_t count);
/// row += bias; the largest element then.
float add_bias(float* row, const float* bias, std::int64_t count);
/// Sum of e^(row - shift).
[[nodiscard]] float exponential_sum(const float* row, std::int64_t count, float shift);
/// row = e^(row - shift); the sum.
float exponentials(float* row, std::int64_t count, float shift);
/// to = e^(row - shift) factor; `to` may be the row.
void scaled_exponentials(const float* row, std::int64_t count, float shift, float factor,
                         float* to);
/// row *= factor.
void scale_row(float* row, std::int64_t count, float factor);

}  // namespace cohort
