#pragma once

#include <cstddef>
#include <span>

namespace cohort {

/// Sums of float buffers, elementwise, always ((x_0 + x_1) + x_2) + ... in the order given, each
/// addition rounded to float: the same bits on every machine.

/// Every x_j becomes the sum. One pass: each buffer is read and written once.
void sum_into_all(std::span<float* const> x, std::size_t count);

/// out becomes the sum; it may be one of the inputs.
void sum_into(float* out, std::span<const float* const> x, std::size_t count);

/// out = in + out.
void add_into(float* out, const float* in, std::size_t count);

}  // namespace cohort
