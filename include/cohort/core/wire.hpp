#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cohort/core/words.hpp"

namespace cohort {

/// Type in which gradients and parameters travel between ranks. Sums, the servers' parameters and
/// optimizer state are single precision with either.
enum class Wire : std::uint8_t { kF32, kBf16 };
template <>
inline constexpr auto kWords<Wire> = std::to_array<std::string_view>({"f32", "bf16"});

/// Bytes of a number on the wire.
[[nodiscard]] constexpr std::size_t wire_bytes(Wire wire) noexcept {
    return wire == Wire::kF32 ? 4 : 2;
}

}  // namespace cohort
