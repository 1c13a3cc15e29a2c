#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cohort/core/words.hpp"

namespace cohort {

/// Type of a tensor's elements in device memory. kI32 is that of tokens; the CPU has no kF16.
enum class ElementType : std::uint8_t { kF32, kBf16, kF16, kI32 };
template <>
inline constexpr auto kWords<ElementType> = std::to_array<std::string_view>({"f32", "bf16", "f16",
                                                                             "i32"});

[[nodiscard]] constexpr std::size_t element_bytes(ElementType type) noexcept {
    return type == ElementType::kF32 || type == ElementType::kI32 ? 4 : 2;
}

/// What a replica computes in. Parameters, their gradients, statistics, sums and the optimizer are
/// single precision in all of them.
enum class Precision : std::uint8_t {
    kF32,   ///< single precision throughout
    kTf32,  ///< as kF32, products of convolutions, linear and recurrent layers rounded to tf32
    kBf16,  ///< activations, their gradients and copies of the weights in bfloat16
    kF16,   ///< the same in half precision; the loss is scaled, see docs/cuda.md
};

template <>
inline constexpr auto kWords<Precision> = std::to_array<std::string_view>({"f32", "tf32", "bf16",
                                                                           "f16"});

/// Type of activations in that precision.
[[nodiscard]] constexpr ElementType activation_type(Precision precision) noexcept {
    return precision == Precision::kBf16  ? ElementType::kBf16
           : precision == Precision::kF16 ? ElementType::kF16
                                          : ElementType::kF32;
}

}  // namespace cohort
