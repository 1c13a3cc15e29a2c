#pragma once

#include <cstdint>
#include <type_traits>

#include "layers/cpu/level/batch_norm_task.hpp"
#include "layers/cpu/level/pool_task.hpp"

// Loops over the lanes of the pixels of one slice. Tensors are of Element: float, or std::uint16_t
// for bfloat16, which is computed in single precision and rounded when it is stored. Statistics and
// sums are the same for both.
namespace cohort {

template <class Element>
struct BatchNormLoops {
    /// sum[c] += sum (x - shift[c]); square[c] += sum (x - shift[c])^2. The shift keeps the
    /// variance from cancelling when |mean| >> deviation.
    void (*statistics)(const ChannelView& view, const Element* x, const float* shift, double* sum,
                       double* square);
    /// y = x * scale[c] + offset[c] (+ added), ReLU when asked. `added` may be nullptr.
    void (*apply)(const ChannelView& view, const Element* x, const float* scale,
                  const float* offset, const Element* added, bool relu, Element* y);
    /// With g = gradient, masked in place: sum[c] += sum g; product[c] += sum g (x - mean[c]). y is
    /// read only with kFromOutput.
    void (*reduce)(const ChannelView& view, const BnChannels& channels, ReluMask mask,
                   const Element* x, const Element* y, Element* gradient, double* sum,
                   double* product);
    /// gradient_x = a[c] g + b[c] (x - mean[c]) + d[c].
    void (*input_gradient)(const ChannelView& view, const Element* x, const Element* gradient,
                           const float* mean, const float* a, const float* b, const float* d,
                           Element* gradient_x);
};

template <class Element, class Tap>
struct MaxPoolLoops {
    /// y = the largest of each window, NaN where there is one; `taps`: which it was, the first of
    /// several, or null.
    void (*forward)(const PoolTask& task, const Element* x, Element* y, Tap* taps);
    void (*backward)(const PoolTask& task, const Element* gradient, const Tap* taps,
                     Element* gradient_x);
};

template <class Element>
struct AveragePoolLoops {
    void (*forward)(const PoolTask& task, const Element* x, Element* y);
    void (*backward)(const PoolTask& task, const Element* gradient, Element* gradient_x);
};

template <class Element>
struct ElementLoops {
    BatchNormLoops<Element> batch_norm;
    MaxPoolLoops<Element, std::uint8_t> max_pool;
    MaxPoolLoops<Element, std::uint32_t> max_pool_of_many;  ///< of windows of more than 256 taps
    AveragePoolLoops<Element> average_pool;

    template <class Tap>
    [[nodiscard]] const MaxPoolLoops<Element, Tap>& max_pool_with() const noexcept {
        if constexpr (std::is_same_v<Tap, std::uint8_t>) {
            return max_pool;
        } else {
            return max_pool_of_many;
        }
    }
};

/// The loops as they are compiled for one set of instructions. The same bits for all of them:
/// products and sums are not fused.
struct LevelLoops {
    ElementLoops<float> f32;
    ElementLoops<std::uint16_t> bf16;

    template <class Element>
    [[nodiscard]] const ElementLoops<Element>& of() const noexcept {
        if constexpr (std::is_same_v<Element, float>) {
            return f32;
        } else {
            return bf16;
        }
    }
};

[[nodiscard]] const LevelLoops& sse_loops();
[[nodiscard]] const LevelLoops& avx2_loops();
[[nodiscard]] const LevelLoops& avx512_loops();
/// Those of vector_level(); AVX without AVX2 has no wider registers for words than SSE.
[[nodiscard]] const LevelLoops& level_loops();

}  // namespace cohort
