#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cohort/core/stored_samples.hpp"
#include "cohort/tensor/element.hpp"
#include "layers/cuda/rules/layouts.hpp"

// A network's input from samples as they are stored; device memory throughout. The arithmetic is
// the CPU's, every operation rounded by itself: in single precision the bits are the same.
namespace cohort::cuda {

/// Images [samples, C, height, width] -> channels last in `type`. @param order  its channels stored
/// are a multiple of 16 bytes
void stored_images_to_channels_last(cudaStream_t stream, const ImageOrder& order,
                                    std::int64_t width, ElementType type, const StoredSamples& from,
                                    void* to, std::int64_t samples);
/// Samples [features] -> the same order in `type`.
void stored_features(cudaStream_t stream, std::int64_t features, ElementType type,
                     const StoredSamples& from, void* to, std::int64_t samples);

}  // namespace cohort::cuda
