#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "channel_math.hpp"

// Pooling over windows of [samples, height, width, channels], channels fastest; device memory.
namespace cohort::cuda {

/// Half-open range of cells or windows along one axis.
struct PoolRange {
    std::int64_t first = 0;
    std::int64_t last = 0;
};
/// Cells that window `index` covers, those outside [0, extent) left out.
COHORT_HD constexpr PoolRange window_cells(std::int64_t index, std::int64_t kernel,
                                           std::int64_t stride, std::int64_t padding,
                                           std::int64_t extent) {
    const std::int64_t first = index * stride - padding;
    const std::int64_t last = first + kernel;
    return {first < 0 ? 0 : first, last < extent ? last : extent};
}
/// Windows, of `windows`, that cover `cell`.
COHORT_HD constexpr PoolRange cell_windows(std::int64_t cell, std::int64_t kernel,
                                           std::int64_t stride, std::int64_t padding,
                                           std::int64_t windows) {
    const std::int64_t reach = cell + padding;
    const std::int64_t first = reach < kernel ? 0 : (reach - kernel) / stride + 1;
    const std::int64_t last = reach / stride + 1;
    return {first, last < windows ? last : windows};
}

struct PoolProblem {
    std::int64_t samples = 0;
    std::int64_t channels = 0;  ///< stored
    std::int64_t height = 0;
    std::int64_t width = 0;
    std::int64_t out_height = 0;
    std::int64_t out_width = 0;
    std::int64_t kernel = 1;
    std::int64_t stride = 1;
    std::int64_t padding = 0;
    ElementType type = ElementType::kF32;
    int multiprocessors = 1;

    [[nodiscard]] std::int64_t pixels() const noexcept { return height * width; }
};

/// Bytes of a place within a window; 0: the window is too large for any.
[[nodiscard]] constexpr std::size_t place_bytes(std::int64_t kernel) noexcept {
    return kernel <= 16 ? 1 : (kernel <= 256 ? 2 : 0);
}

/// The largest number of each window, the first of equals, NaN before all others; `places` gets its
/// place within the window, row * kernel + column, in place_bytes(kernel) bytes for each output
/// (nullptr: not wanted).
void max_pool(cudaStream_t stream, const PoolProblem& problem, const void* x, void* y,
              void* places);
void max_pool_gradient(cudaStream_t stream, const PoolProblem& problem, const void* gradient,
                       const void* places, void* input_gradient);

/// The mean of each window's cells that lie in the image.
void average_pool(cudaStream_t stream, const PoolProblem& problem, const void* x, void* y);
void average_pool_gradient(cudaStream_t stream, const PoolProblem& problem, const void* gradient,
                           void* input_gradient);

/// The mean of each channel of a sample.
void global_average_pool(cudaStream_t stream, const PoolProblem& problem, const void* x, void* y);
void global_average_pool_gradient(cudaStream_t stream, const PoolProblem& problem,
                                  const void* gradient, void* input_gradient);

}  // namespace cohort::cuda
