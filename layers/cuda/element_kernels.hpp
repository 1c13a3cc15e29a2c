#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cohort/layers/kernel.hpp"

// Elementwise kernels that several layers and the support queue; device memory throughout.
namespace cohort::cuda {

/// to += from, `count` elements of that type, sums in single precision.
void add_elements(cudaStream_t stream, ElementType type, void* to, const void* from,
                  std::int64_t count);
/// Single precision to `type` or back, the same order.
void cast_elements(cudaStream_t stream, ElementType to_type, void* to, ElementType from_type,
                   const void* from, std::int64_t count);
/// values /= step->loss_scale, exactly; sets step->overflow where one is infinite or NaN.
void unscale_elements(cudaStream_t stream, float* values, std::int64_t count, StepValues* step);

}  // namespace cohort::cuda
