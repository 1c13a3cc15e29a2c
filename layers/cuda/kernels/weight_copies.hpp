#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cohort/tensor/element.hpp"
#include "layers/cuda/rules/layouts.hpp"
#include "layers/cuda/rules/lstm_weights.hpp"

// Kernels that change the order and type of whole tensors; device memory throughout.
namespace cohort::cuda {

/// A copy of a parameter: one entry of the table that refresh_weights() goes through.
struct WeightCopy {
    const float* from = nullptr;
    void* to = nullptr;
    WeightForm form;
    std::int64_t first_block = 0;
};

/// Elements that one block of refresh_copies copies.
constexpr std::int64_t kCopiesPerBlock = 2048;
[[nodiscard]] constexpr std::int64_t blocks_of_copy(const WeightForm& form) noexcept {
    return (form.elements() + kCopiesPerBlock - 1) / kCopiesPerBlock;
}

/// Makes all copies of a table, in one launch. @param blocks of all entries together
void refresh_copies(cudaStream_t stream, const WeightCopy* table, int entries, std::int64_t blocks);

/// A gradient in that form becomes the parameter's, row-major in single precision.
void store_weight_gradient(cudaStream_t stream, const WeightForm& form, const void* from,
                           float* gradient);

/// Row-major images in single precision -> channels last in `type`, and back.
void images_to_channels_last(cudaStream_t stream, const ImageOrder& order, ElementType type,
                             const float* from, void* to, std::int64_t samples);
void images_to_row_major(cudaStream_t stream, const ImageOrder& order, ElementType type,
                         const void* from, float* to, std::int64_t samples);

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
