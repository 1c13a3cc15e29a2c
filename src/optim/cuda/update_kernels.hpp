#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "optim/kernels.hpp"

// Launches of the update rules; all pointers are device memory, those of slots the piece's first
// float.
namespace cohort::cuda {

/// A piece of an update as kernels see it.
struct PieceView {
    const std::uint8_t* units = nullptr;  ///< see update_units()
    std::int64_t first = 0;               ///< the piece's first float, counted in the units' floats
    std::int64_t count = 0;
    float* theta = nullptr;
    const float* gradient = nullptr;
};

void launch_sgd(cudaStream_t stream, const PieceView& piece, const kernels::SgdFactors& factors,
                kernels::Decay decay, float* u);
void launch_adamw(cudaStream_t stream, const PieceView& piece, const kernels::AdamFactors& factors,
                  kernels::Decay decay, float* m, float* v, float* partial);
void launch_sgd_delta(cudaStream_t stream, const PieceView& piece,
                      const kernels::DeltaFactors& factors, float* u);
void launch_add_delta(cudaStream_t stream, const PieceView& piece);

}  // namespace cohort::cuda
