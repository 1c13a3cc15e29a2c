#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "layers/cuda/rules/channel_math.hpp"

// Kernels of batch norm over [rows, stored channels]; device memory throughout. Sums over the rows
// are [blocks along the rows][stored] pairs of floats, which the last block to finish adds up in a
// fixed order. The order follows from the number of blocks: from rows, channels, type and the GPU.
namespace cohort::cuda {

/// Numbers per channel that the passes hand on; of missing channels they are 0.
struct BnChannelValues {
    double* inverse = nullptr;  ///< 1 / deviation
    float* mean = nullptr;
    float* scale = nullptr;  ///< y = x scale + offset
    float* offset = nullptr;
    float* a = nullptr;  ///< gradient = a g + b (x - mean) + d
    float* b = nullptr;
    float* d = nullptr;
};

/// How the ReLU's mask is found again: there is no ReLU; from x; from the output.
enum class BnMask { kNone, kFromInput, kFromOutput };

/// What the kernels work on.
struct BnProblem {
    std::int64_t rows = 0;
    std::int64_t channels = 0;
    std::int64_t stored = 0;  ///< channels of a row in memory
    ElementType type = ElementType::kF32;
    int gpu = 0;  ///< GpuFacts::index
    int multiprocessors = 1;
    ChannelTiles tiles;  ///< see bn_tiles
    BnChannelValues values;
    unsigned* arrivals = nullptr;  ///< [tiles.blocks_x], 0 between launches
    float epsilon = 0;
    const float* weight = nullptr;
    const float* bias = nullptr;
};

/// Eight threads side by side read 128 bytes of a row, a line of the cache.
[[nodiscard]] constexpr ChannelTiles bn_tiles(std::int64_t rows, std::int64_t stored,
                                              ElementType type, int multiprocessors,
                                              bool vectors) noexcept {
    return channel_tiles(rows, stored, type, multiprocessors, vectors, 8);
}

/// Bytes of a pass's partial sums.
[[nodiscard]] std::size_t bn_partial_bytes(const BnProblem& problem) noexcept;

/// Mean and (biased) variance of x go to batch_mean and batch_variance, what follows to the values.
void bn_statistics(cudaStream_t stream, const BnProblem& problem, const void* x, float2* partials,
                   float* batch_mean, float* batch_variance);
/// Scale and offset from given statistics.
void bn_inference(cudaStream_t stream, const BnProblem& problem, const float* mean,
                  const float* variance);

/// What is added before the ReLU.
struct BnAdded {
    const void* data = nullptr;  ///< nullptr: nothing
    std::int64_t stored = 0;     ///< channels of a row in memory
};
void bn_apply(cudaStream_t stream, const BnProblem& problem, const void* x, const BnAdded& added,
              bool relu, void* y);

/// Gradients of weight and bias, and a, b, d. With kFromOutput the gradient is masked in place.
void bn_reduce(cudaStream_t stream, const BnProblem& problem, BnMask mask, const void* x,
               const void* y, void* gradient, float2* partials, float* weight_gradient,
               float* bias_gradient);
/// @param gradient  as bn_reduce left it
void bn_input_gradient(cudaStream_t stream, const BnProblem& problem, BnMask mask, const void* x,
                       const void* gradient, void* input_gradient);

}  // namespace cohort::cuda
