#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cohort/layers/layer.hpp"

// Elementwise kernels that several layers and the support queue; device memory throughout. A result
// may take an operand's place.
namespace cohort::cuda {

/// Single precision to `type` or back, the same order.
void cast_elements(cudaStream_t stream, ElementType to_type, void* to, ElementType from_type,
                   const void* from, std::int64_t count);
/// values /= step->loss_scale, exactly; sets step->overflow where one is infinite or NaN.
void unscale_elements(cudaStream_t stream, float* values, std::int64_t count, StepValues* step);
/// state += step (batch - state), every operation rounded by itself, as on the CPU.
void fold_elements(cudaStream_t stream, float* state, const float* batch, std::int64_t count,
                   float step);

/// y = x > 0 ? x : 0.
void relu_elements(cudaStream_t stream, ElementType type, void* y, const void* x,
                   std::int64_t count);
/// gradient_out = y > 0 ? gradient : 0; y is the ReLU's output.
void relu_mask_elements(cudaStream_t stream, ElementType type, void* gradient_out, const void* y,
                        const void* gradient, std::int64_t count);
/// y = a + b, then ReLU when asked.
void add_two_elements(cudaStream_t stream, ElementType type, void* y, const void* a, const void* b,
                      std::int64_t count, bool relu);

/// y = f(x), all but ReLU (see relu_elements). Elements of padding channels, whose number modulo
/// `block` is `channels` or more, become zero.
void activate(cudaStream_t stream, ActivationKind kind, const TensorFormat& format,
              std::int64_t samples, void* y, const void* x);
/// gradient_out = gradient f'(x). @param values  GELU: x; the others: y
void activate_backward(cudaStream_t stream, ActivationKind kind, const TensorFormat& format,
                       std::int64_t samples, void* gradient_out, const void* values,
                       const void* gradient);

}  // namespace cohort::cuda
