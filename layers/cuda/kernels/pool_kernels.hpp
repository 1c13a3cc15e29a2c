#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cohort/core/host_device.hpp"
#include "cohort/layers/window.hpp"
#include "cohort/tensor/element.hpp"
#include "layers/cuda/rules/channel_math.hpp"

// Pooling over windows of [samples, height, width, channels], channels fastest; device memory.
namespace cohort::cuda {

struct PoolProblem {
    std::int64_t samples = 0;
    std::int64_t channels = 0;  ///< stored
    std::int64_t height = 0;
    std::int64_t width = 0;
    std::int64_t out_height = 0;
    std::int64_t out_width = 0;
    Window2d window;             ///< without gaps
    bool count_padding = false;  ///< average: divide by all cells of a window, else by the image's
    ElementType type = ElementType::kF32;
    int multiprocessors = 1;

    [[nodiscard]] std::int64_t pixels() const noexcept { return height * width; }
    /// Of a window.
    [[nodiscard]] COHORT_HD constexpr std::int64_t cells() const noexcept {
        return window.height.kernel * window.width.kernel;
    }
};

/// The largest number of each window, the first of equals, NaN before all others; `places` gets its
/// place within the window, row * kernel width + column, in place_bytes(cells) bytes for each
/// output (nullptr: not wanted).
void max_pool(cudaStream_t stream, const PoolProblem& problem, const void* x, void* y,
              void* places);
void max_pool_gradient(cudaStream_t stream, const PoolProblem& problem, const void* gradient,
                       const void* places, void* input_gradient);

/// The mean of each window's cells that lie in the image, or of all, zeros where there is none.
void average_pool(cudaStream_t stream, const PoolProblem& problem, const void* x, void* y);
void average_pool_gradient(cudaStream_t stream, const PoolProblem& problem, const void* gradient,
                           void* input_gradient);

/// The mean of each channel of a sample.
void global_average_pool(cudaStream_t stream, const PoolProblem& problem, const void* x, void* y);
void global_average_pool_gradient(cudaStream_t stream, const PoolProblem& problem,
                                  const void* gradient, void* input_gradient);

}  // namespace cohort::cuda
