#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// Launches of the vector sums; device memory throughout.
namespace cohort::cuda {

void launch_scale(cudaStream_t stream, float* to, const float* from, std::int64_t count,
                  float factor);
void launch_add_scaled(cudaStream_t stream, float* to, const float* from, std::int64_t count,
                       float factor);

/// Partial sums of launch_add_squares().
inline constexpr int kMostSquareSums = 1024;
/// *total += sum of squares, in an order that depends on `count` alone.
/// @param partial  kMostSquareSums doubles, overwritten
void launch_add_squares(cudaStream_t stream, const float* values, std::int64_t count,
                        double* partial, double* total);

}  // namespace cohort::cuda
