#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cohort/core/host_device.hpp"
#include "layers/cuda/rules/channel_math.hpp"

// Convolution of each channel alone, images with channels last without gaps, filters [channels, 3,
// 3]; device memory throughout. It is bound by memory. For bfloat16 cuDNN 9.19 has none of the
// engines (57, 61, 62) that it puts first for half precision, only those for any groups.
namespace cohort::cuda {

inline constexpr int kDepthwiseKernel = 3;

/// One axis of images and results.
struct DepthwiseAxis {
    int image = 1;   ///< pixels
    int result = 1;  ///< pixels
    int stride = 1;
    int padding = 0;  ///< before the first pixel
    int dilation = 1;
};
/// The image's pixel that result `i` multiplies with tap `tap`; -1: padding.
[[nodiscard]] COHORT_HD constexpr int image_pixel(const DepthwiseAxis& axis, int i, int tap) {
    const int at = i * axis.stride - axis.padding + tap * axis.dilation;
    return at < axis.image ? (at < 0 ? -1 : at) : -1;
}
/// The result's pixel to which image pixel `i` contributes by tap `tap`; -1: there is none.
[[nodiscard]] COHORT_HD constexpr int result_pixel(const DepthwiseAxis& axis, int i, int tap) {
    const int at = i + axis.padding - tap * axis.dilation;
    if (at < 0 || at % axis.stride != 0) {
        return -1;
    }
    return at / axis.stride < axis.result ? at / axis.stride : -1;
}

struct DepthwiseProblem {
    int samples = 1;
    std::int64_t channels = 1;
    DepthwiseAxis height;
    DepthwiseAxis width;
    ElementType type = ElementType::kF32;
    int multiprocessors = 1;
};

/// The kernels below can do it.
[[nodiscard]] bool depthwise_possible(const DepthwiseProblem& problem) noexcept;

void depthwise_forward(cudaStream_t stream, const DepthwiseProblem& problem, const void* image,
                       const void* filter, void* result);
/// @param adds  the gradient is added to what `image_gradient` holds, else assigned
void depthwise_image_gradient(cudaStream_t stream, const DepthwiseProblem& problem,
                              const void* result_gradient, const void* filter, bool adds,
                              void* image_gradient);

/// Bytes of the partial sums below.
[[nodiscard]] std::size_t depthwise_partial_bytes(const DepthwiseProblem& problem) noexcept;
/// Sums in single precision over a block's pixels, over blocks in double precision, in a fixed
/// order. @param filter_gradient  [channels, 3, 3]
void depthwise_filter_gradient(cudaStream_t stream, const DepthwiseProblem& problem,
                               const void* image, const void* result_gradient, float* partials,
                               float* filter_gradient);

}  // namespace cohort::cuda
