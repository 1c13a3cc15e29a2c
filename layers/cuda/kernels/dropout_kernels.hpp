#pragma once

#include <cuda_runtime_api.h>

#include "cohort/layers/kernel.hpp"
#include "layers/cuda/rules/dropout_rules.hpp"

namespace cohort::cuda {

/// to = kept ? from / (1 - probability) : 0. The mask is drawn again whenever it is needed: forward
/// and backward are the same call. Seed and epoch are those of `step`.
/// @param sample_ids  [samples], device memory  @param layer  tells dropouts apart
void drop_elements(cudaStream_t stream, ElementType type, const DropoutShape& shape,
                   std::int64_t samples, float probability, std::uint32_t layer,
                   const StepValues* step, const std::int64_t* sample_ids, void* to,
                   const void* from);

}  // namespace cohort::cuda
