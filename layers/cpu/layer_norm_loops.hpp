#pragma once

#include <cstdint>

namespace cohort {

/// Rows of features that are normalised one by one.
struct NormRows {
    std::int64_t rows = 0;
    std::int64_t features = 0;
    const float* input = nullptr;  ///< [rows, features]
    /// [rows, 2]: mean and inverse deviation, written by forward (if not null), read by backward.
    float* statistics = nullptr;
    const float* weight = nullptr;  ///< [features]
};

/// output = (input - mean) / sqrt(variance + epsilon) * weight + bias
void layer_norm_forward(const NormRows& at, float epsilon, const float* bias, float* output);

/// Adds to `sums` the gradients of weight and bias, [2, features]; assigns the input's.
/// @param input_gradient  [rows, features], or null
void layer_norm_backward(const NormRows& at, const float* output_gradient, float* sums,
                         float* input_gradient);

}  // namespace cohort
