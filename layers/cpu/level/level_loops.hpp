#pragma once

#include <cstdint>

#include "layers/cpu/batch_norm_loops.hpp"
#include "layers/cpu/level/pool_task.hpp"

namespace cohort {

/// See batch_norm_loops.hpp.
template <class Element>
struct BatchNormLoops {
    void (*statistics)(const ChannelView& view, const Element* x, const float* shift, double* sum,
                       double* square);
    void (*apply)(const ChannelView& view, const Element* x, const float* scale,
                  const float* offset, const Element* added, bool relu, Element* y);
    void (*reduce)(const ChannelView& view, const BnChannels& channels, ReluMask mask,
                   const Element* x, const Element* y, Element* gradient, double* sum,
                   double* product);
    void (*input_gradient)(const ChannelView& view, const Element* x, const Element* gradient,
                           const float* mean, const float* a, const float* b, const float* d,
                           Element* gradient_x);
};

/// See pool_loops.hpp.
template <class Element, class Tap>
struct MaxPoolLoops {
    void (*forward)(const PoolTask& task, const Element* x, Element* y, Tap* taps);
    void (*backward)(const PoolTask& task, const Element* gradient, const Tap* taps,
                     Element* gradient_x);
};
template <class Element>
struct AveragePoolLoops {
    void (*forward)(const PoolTask& task, const Element* x, Element* y);
    void (*backward)(const PoolTask& task, const Element* gradient, Element* gradient_x);
};

/// Loops that run over the lanes of pixels, compiled for one set of instructions. The same bits for
/// all of them: products and sums are not fused.
template <class Element>
struct LevelLoops {
    BatchNormLoops<Element> batch_norm;
    MaxPoolLoops<Element, std::uint8_t> max_pool;
    MaxPoolLoops<Element, std::uint32_t> max_pool_of_many;  ///< of windows of more than 256 taps
    AveragePoolLoops<Element> average_pool;
};

/// Of all levels; Element: float, or std::uint16_t for bfloat16.
template <class Element>
const LevelLoops<Element>& sse_loops();
template <>
const LevelLoops<float>& sse_loops();
template <>
const LevelLoops<std::uint16_t>& sse_loops();
template <class Element>
const LevelLoops<Element>& avx2_loops();
template <>
const LevelLoops<float>& avx2_loops();
template <>
const LevelLoops<std::uint16_t>& avx2_loops();
template <class Element>
const LevelLoops<Element>& avx512_loops();
template <>
const LevelLoops<float>& avx512_loops();
template <>
const LevelLoops<std::uint16_t>& avx512_loops();

/// Those of vector_level(); AVX without AVX2 has no wider registers for words than SSE.
template <class Element>
[[nodiscard]] const LevelLoops<Element>& level_loops();
template <>
const LevelLoops<float>& level_loops();
template <>
const LevelLoops<std::uint16_t>& level_loops();

}  // namespace cohort
