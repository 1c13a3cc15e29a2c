#pragma once

#include <memory>

#include "layers/cpu/conv/conv_algorithm.hpp"
#include "layers/cpu/dnnl_support.hpp"

namespace cohort {

/// Winograd's algorithms for 3x3 convolutions of stride 1 whose padding is the same on all sides
/// (winograd_tiles.hpp), in single precision and channel blocks; at most 1e-4 of the largest value
/// as error (tested).
[[nodiscard]] bool own_winograd_possible(const ConvProblem& problem,
                                         VectorLevel level = vector_level());
[[nodiscard]] std::unique_ptr<ConvProduct> make_own_winograd(const ConvProblem& problem,
                                                             ConvDirection direction,
                                                             VectorLevel level = vector_level());
[[nodiscard]] std::unique_ptr<ConvWeightGradient> make_own_winograd_gradient(
    const ConvProblem& problem, VectorLevel level = vector_level());

}  // namespace cohort
