#pragma once

#include <span>

namespace cohort {

/// Sum of squares of host memory, accumulated in double in a fixed order (the same bits on every
/// CPU).
[[nodiscard]] double sum_of_squares(std::span<const float> values) noexcept;

/// Sum of products, the same way. Equal sizes.
[[nodiscard]] double dot(std::span<const float> a, std::span<const float> b) noexcept;

/// Euclidean norm: sqrt(sum_of_squares).
[[nodiscard]] double norm(std::span<const float> values) noexcept;

/// to = factor * from, rounded once per element. Equal sizes; may be the same memory. Host memory.
void scale_into(std::span<float> to, std::span<const float> from, float factor) noexcept;

/// to += factor * from, product and sum rounded each. Equal sizes. Host memory.
void add_scaled(std::span<float> to, std::span<const float> from, float factor) noexcept;

}  // namespace cohort
