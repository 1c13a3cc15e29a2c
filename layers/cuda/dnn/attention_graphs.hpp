#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "layers/cuda/dnn/dnn_graph.hpp"

// Attention as cuDNN's graphs: the products, softmax and mask that its fused engines know as one
// pattern (forward as Dao et al. 2022, backward with the probabilities made again).
namespace cohort::cuda {

/// Attention of one batch size. Queries, keys and values lie side by side in rows of 3 F, heads
/// one behind the other in each; the output has rows of F.
struct AttentionProblem {
    std::int64_t samples = 1;
    std::int64_t positions = 1;
    std::int64_t heads = 1;
    std::int64_t width = 1;  ///< of a head
    bool causal = false;
    ElementType type = ElementType::kBf16;

    [[nodiscard]] std::int64_t features() const noexcept { return heads * width; }
};
/// "attention n16 t1024 h12 d64 causal bf16".
[[nodiscard]] std::string problem_text(const AttentionProblem& problem);

/// Numbers of the tensors in the graphs. Scalars are single precision in host memory.
enum AttentionTensor : std::int64_t {
    kQueries = 1,
    kKeys = 2,
    kValues = 3,
    kAttended = 4,  ///< the output
    kDivisors = 5,  ///< [samples, heads, positions], single precision
    kAttendedGradient = 6,
    kQueriesGradient = 7,
    kKeysGradient = 8,
    kValuesGradient = 9,
    kGradientSums = 10,  ///< [samples, heads, positions], single precision: workspace
    /// [samples, heads, positions, width], single precision, zero before a run: workspace where
    /// the gradient of the queries is added up in an order that depends on chance.
    kQueriesSums = 11,
    kScale = 12,     ///< scalar
    kUnseen = 13,    ///< scalar, the score of a key that is not seen: minus infinity
    kUnchanged = 14  ///< scalar 1
};

/// The divisors are written in inference too: the engines know no pattern without them.
[[nodiscard]] std::shared_ptr<const DnnGraph> attention_forward_graph(
    const DnnTarget& target, const AttentionProblem& problem);
/// @param summed  by way of kQueriesSums
[[nodiscard]] std::shared_ptr<const DnnGraph> attention_backward_graph(
    const DnnTarget& target, const AttentionProblem& problem, bool summed);

}  // namespace cohort::cuda
