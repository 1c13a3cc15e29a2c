#include "core/bf16.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/system/simd.hpp"

namespace cohort {
namespace {

constexpr std::size_t kWidenBlock = 512;  // shorts that are read before their floats are written

}  // namespace

COHORT_SIMD_CLONES
void narrow_to_bf16(std::span<const float> from, std::uint16_t* to) noexcept {
    const float* values = from.data();
    const std::size_t count = from.size();
    for (std::size_t i = 0; i < count; ++i) {
        to[i] = nearest_bf16(values[i]);
    }
}

COHORT_SIMD_CLONES
void narrow_with_rest(std::span<const float> from, const float* before, float* after,
                      std::uint16_t* to) noexcept {
    const float* values = from.data();
    const std::size_t count = from.size();
#pragma GCC ivdep  // NOLINT(clang-diagnostic-unknown-pragmas)
    for (std::size_t i = 0; i < count; ++i) {
        const float value = values[i] + before[i];
        const std::uint16_t rounded = nearest_bf16(value);
        const float rest = value - float_of_bf16(rounded);
        to[i] = rounded;
        after[i] = std::abs(rest) < std::bit_cast<float>(0x7f800000U) ? rest : 0;
    }
}

COHORT_SIMD_CLONES
void add_bf16(const std::uint16_t* from, std::span<float> to) noexcept {
    float* values = to.data();
    const std::size_t count = to.size();
    for (std::size_t i = 0; i < count; ++i) {
        values[i] += float_of_bf16(from[i]);
    }
}

COHORT_SIMD_CLONES
void widen_bf16(const std::uint16_t* from, std::span<float> to) noexcept {
    float* values = to.data();
    const std::size_t count = to.size();
    for (std::size_t i = 0; i < count; ++i) {
        values[i] = float_of_bf16(from[i]);
    }
}

/// Front to back: the floats of a block end before the shorts that follow the block.
void widen_bf16_in_place(std::span<float> memory) noexcept {
    const std::byte* from = std::as_bytes(memory).last(memory.size_bytes() / 2).data();
    alignas(64) std::array<std::uint16_t, kWidenBlock> block;
    for (std::size_t at = 0; at < memory.size(); at += kWidenBlock) {
        const std::size_t n = std::min(kWidenBlock, memory.size() - at);
        std::memcpy(block.data(), from + at * sizeof(std::uint16_t), n * sizeof(std::uint16_t));
        widen_bf16(block.data(), memory.subspan(at, n));
    }
}

}  // namespace cohort
