#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cohort/core/words.hpp"
#include "cohort/tensor/device.hpp"
#include "cohort/tensor/element.hpp"

namespace cohort {

/// What --precision asks for: a Precision, or what the device is best at.
enum class PrecisionChoice : std::uint8_t { kF32, kTf32, kBf16, kF16, kAuto };
template <>
inline constexpr auto kWords<PrecisionChoice> =
    std::to_array<std::string_view>({"f32", "tf32", "bf16", "f16", "auto"});

/// What a device of that kind computes in. kAuto: tf32 on a GPU, whose products of f32 would do
/// without its tensor cores; f32 on a CPU.
[[nodiscard]] constexpr Precision precision_on(DeviceKind kind, PrecisionChoice choice) noexcept {
    switch (choice) {
        case PrecisionChoice::kF32: return Precision::kF32;
        case PrecisionChoice::kTf32: return Precision::kTf32;
        case PrecisionChoice::kBf16: return Precision::kBf16;
        case PrecisionChoice::kF16: return Precision::kF16;
        case PrecisionChoice::kAuto: break;
    }
    return kind == DeviceKind::kCuda ? Precision::kTf32 : Precision::kF32;
}

}  // namespace cohort
