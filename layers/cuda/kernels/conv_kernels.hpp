#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "layers/cuda/rules/channel_math.hpp"

// What surrounds a convolution's products: [rows, channels] without gaps, device memory.
namespace cohort::cuda {

struct RowProblem {
    std::int64_t rows = 0;
    std::int64_t channels = 0;
    ElementType type = ElementType::kF32;
    ChannelTiles tiles;
};

/// y = act(y + bias), in place. @param bias  [channels] or nullptr
void add_bias_relu(cudaStream_t stream, const RowProblem& problem, const float* bias, bool relu,
                   void* y);

/// sums[i] = partials[i][0] + partials[i][1] + ..., in double precision, in a fixed order.
/// @param count  of sums  @param blocks  numbers of each
void sum_partials(cudaStream_t stream, std::int64_t count, std::int64_t blocks,
                  const float* partials, float* sums);

/// Bytes of the partial sums below.
[[nodiscard]] std::size_t bias_partial_bytes(const RowProblem& problem) noexcept;
/// With `relu` the gradient is masked in place where y is not above 0. With `bias_gradient` the
/// columns' sums go there, added in a fixed order. @param bias_gradient  [channels] or nullptr
void relu_bias_gradient(cudaStream_t stream, const RowProblem& problem, bool relu, const void* y,
                        void* gradient, float* partials, float* bias_gradient);

}  // namespace cohort::cuda
