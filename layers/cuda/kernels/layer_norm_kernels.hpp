#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cohort/tensor/element.hpp"

namespace cohort::cuda {

/// Rows of features that are normalised one by one; device memory.
struct NormRows {
    std::int64_t rows = 0;
    std::int64_t features = 0;
    ElementType type = ElementType::kF32;
    const void* input = nullptr;  ///< [rows, features]
    /// [rows, 2]: mean and inverse deviation, written by forward (if not null), read by backward.
    float* statistics = nullptr;
    const float* weight = nullptr;  ///< [features]
};

/// output = (input - mean) / sqrt(variance + epsilon) * weight + bias
void layer_norm_forward(cudaStream_t stream, const NormRows& at, float epsilon, const float* bias,
                        void* output);
/// The gradient of the input.
void layer_norm_backward(cudaStream_t stream, const NormRows& at, const void* output_gradient,
                         void* input_gradient);

/// Bytes of scratch that layer_norm_sums() wants.
[[nodiscard]] std::size_t layer_norm_scratch(std::int64_t rows, std::int64_t features);
/// The gradients of weight and bias, [features] each; sums in an order that depends on the sizes
/// alone.
void layer_norm_sums(cudaStream_t stream, const NormRows& at, const void* output_gradient,
                     float* weight_gradient, float* bias_gradient, void* scratch);

}  // namespace cohort::cuda
