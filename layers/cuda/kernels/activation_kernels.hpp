#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cohort/layers/layer.hpp"

namespace cohort::cuda {

/// y = f(x), all but ReLU (see relu_elements). Elements of padding channels, whose number modulo
/// `block` is `channels` or more, become zero.
void activate(cudaStream_t stream, ActivationKind kind, const TensorFormat& format,
              std::int64_t samples, void* y, const void* x);
/// gradient_out = gradient f'(x). @param values  GELU: x; sigmoid and tanh: y
void activate_backward(cudaStream_t stream, ActivationKind kind, const TensorFormat& format,
                       std::int64_t samples, void* gradient_out, const void* values,
                       const void* gradient);

}  // namespace cohort::cuda
