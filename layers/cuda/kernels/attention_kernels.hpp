#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cohort/tensor/element.hpp"

namespace cohort::cuda {

/// Heads as matrices of their own, padded with zeros so that products read 16 bytes at a time.
/// Joined, a position's row has `parts` times `heads` vectors of `width` elements side by side:
/// [samples, positions, parts, heads, width]; split, there is a matrix per head:
/// [parts, samples, heads, padded_positions, padded_width].
struct HeadShape {
    std::int64_t samples = 0;
    std::int64_t positions = 0;
    std::int64_t heads = 0;
    std::int64_t width = 0;  ///< of a head
    std::int64_t padded_positions = 0;
    std::int64_t padded_width = 0;
    ElementType type = ElementType::kF32;

    [[nodiscard]] constexpr std::int64_t matrices() const noexcept { return samples * heads; }
    /// Elements of one part, split.
    [[nodiscard]] constexpr std::int64_t part_elements() const noexcept {
        return matrices() * padded_positions * padded_width;
    }
    /// Elements of the scores: a square of the padded positions for every head.
    [[nodiscard]] constexpr std::int64_t scores() const noexcept {
        return matrices() * padded_positions * padded_positions;
    }
};

void split_heads(cudaStream_t stream, const HeadShape& shape, int parts, const void* joined,
                 void* split);
void merge_heads(cudaStream_t stream, const HeadShape& shape, int parts, const void* split,
                 void* joined);

/// Rows of scores, single precision, and the keys that a row's query sees.
struct Scores {
    HeadShape shape;
    bool causal = false;
    float scale = 1;
    float* scores = nullptr;
    float* divisors = nullptr;  ///< [samples, heads, positions]: logarithms
};
/// probabilities = softmax(scale scores), in the shape's type, 0 for keys that are not seen, in
/// padding too; may be the scores' memory in single precision. Divisors are written if not null.
void softmax_scores(cudaStream_t stream, const Scores& at, void* probabilities);
/// The same probabilities from the divisors; and from the gradient of the probabilities
/// that of the scores: scale p (gradient - sum of p gradient).
/// @param gradient  single precision  @param scores_gradient  in the shape's type; both results may
/// be the operands' memory in single precision
void softmax_scores_backward(cudaStream_t stream, const Scores& at, const float* gradient,
                             void* probabilities, void* scores_gradient);

}  // namespace cohort::cuda
