#pragma once

#include <cstdint>
#include <span>

#include "core/system/simd.hpp"

// bfloat16: the upper 16 bits of a float. Rounding is to nearest, ties to even; NaN stays NaN.
namespace cohort {

COHORT_INLINE inline std::uint16_t nearest_bf16(float value) noexcept {
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
    return static_cast<std::uint16_t>(nan ? (bits >> 16U) | 0x40U : rounded);
}

COHORT_INLINE inline float float_of_bf16(std::uint16_t value) noexcept {
    return __builtin_bit_cast(float, std::uint32_t{value} << 16U);
}

/// to[i] is from[i], rounded.
void narrow_to_bf16(std::span<const float> from, std::uint16_t* to) noexcept;
/// to[i] is from[i] + before[i], rounded; after[i] becomes what was rounded away, or 0 where that
/// is not finite. [from.size()] floats each; `after` may be `before`.
void narrow_with_rest(std::span<const float> from, const float* before, float* after,
                      std::uint16_t* to) noexcept;
/// to[i] += from[i].
void add_bf16(const std::uint16_t* from, std::span<float> to) noexcept;
/// The other way round, exact.
void widen_bf16(const std::uint16_t* from, std::span<float> to) noexcept;
/// The same in place: the last half of `memory` holds as many bfloat16 as `memory` has floats.
void widen_bf16_in_place(std::span<float> memory) noexcept;

}  // namespace cohort
