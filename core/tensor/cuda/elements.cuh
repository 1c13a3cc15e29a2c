#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cohort/core/host_device.hpp"
#include "cohort/tensor/element.hpp"

/// Elements of the three types, read and written as floats. Computation is in single precision.
namespace cohort::cuda {

COHORT_HD inline float to_float(float value) {
    return value;
}
COHORT_HD inline float to_float(__nv_bfloat16 value) {
    return __bfloat162float(value);
}
COHORT_HD inline float to_float(__half value) {
    return __half2float(value);
}

/// Rounds to nearest, ties to even; beyond the largest number of the type: infinity.
template <class T>
COHORT_HD T from_float(float value);
template <>
COHORT_HD inline float from_float<float>(float value) {
    return value;
}
template <>
COHORT_HD inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
    return __float2bfloat16_rn(value);
}
template <>
COHORT_HD inline __half from_float<__half>(float value) {
    return __float2half_rn(value);
}

/// Calls f with a value of the C++ type that `type` names: `with_type(t, [&](auto zero) { using T =
/// decltype(zero); ... })`.
template <class F>
void with_type(ElementType type, F&& f) {
    switch (type) {
        case ElementType::kF32: f(float{}); return;
        case ElementType::kBf16: f(__nv_bfloat16{}); return;
        case ElementType::kF16: f(__half{}); return;
        case ElementType::kI32: break;  // tokens are no numbers to compute with
    }
}

/// 16 bytes of elements: what a thread reads and writes at once.
template <class T>
struct alignas(16) Pack {
    static constexpr int kSize = 16 / static_cast<int>(sizeof(T));
    T at[kSize];
};

/// Threads of a block and blocks of a grid for `count` independent elements; kernels stride on by
/// the grid where a grid has fewer threads than elements.
struct Launch {
    unsigned blocks = 1;
    unsigned threads = 256;
};
/// @param most_blocks  kFullBlocks or kMostBlocks
[[nodiscard]] constexpr Launch launch_for(std::int64_t count, int most_blocks) noexcept {
    const std::int64_t wanted = (count + 255) / 256;
    const std::int64_t blocks = wanted < 1 ? 1 : (wanted < most_blocks ? wanted : most_blocks);
    return {static_cast<unsigned>(blocks), 256};
}

/// Blocks of 256 threads that fill the largest GPU this is compiled for: for kernels whose threads
/// have something to prepare.
inline constexpr int kFullBlocks = 132 * 8;
/// For those whose threads have nothing to prepare: as many as there is work for.
inline constexpr int kMostBlocks = 1 << 20;

}  // namespace cohort::cuda
