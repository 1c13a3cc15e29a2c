#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cohort/layers/kernel.hpp"

namespace cohort::cuda {

/// Blocks of a loss kernel at most; each has partial sums of its own.
inline constexpr int kMostLossSums = 1024;

/// What the loss kernels work on, device memory. Gradients are multiplied by the slice's scale and
/// by step->loss_scale; they may take the logits' place.
struct LossWork {
    LossSlice slice;
    std::int64_t outputs = 0;  ///< of a sample
    ElementType type = ElementType::kF32;
    const StepValues* step = nullptr;
    LossSums* partial = nullptr;  ///< [kMostLossSums], overwritten
    LossSums* total = nullptr;
    bool adds = false;             ///< to the total; else that is assigned
    unsigned* arrivals = nullptr;  ///< 0 between launches
};

void cross_entropy(cudaStream_t stream, const LossWork& work);
void squared_error(cudaStream_t stream, const LossWork& work);

}  // namespace cohort::cuda
