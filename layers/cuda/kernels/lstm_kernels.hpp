#pragma once

#include <cuda_runtime_api.h>

#include "cohort/tensor/element.hpp"
#include "layers/cuda/rules/lstm_weights.hpp"

namespace cohort::cuda {

/// Our three parameters, or their gradients: weight_input, weight_hidden, bias.
template <class T>
struct LstmParameters {
    T* at[3] = {};
};

/// Copies the parameters to a weight space of elements of that type.
void pack_lstm_weights(cudaStream_t stream, const LstmWeights& weights, ElementType type,
                       void* space, const LstmParameters<const float>& parameters);
/// Copies gradients out of a weight space.
void unpack_lstm_gradients(cudaStream_t stream, const LstmWeights& weights, ElementType type,
                           const LstmParameters<float>& gradients, const void* space);

}  // namespace cohort::cuda
