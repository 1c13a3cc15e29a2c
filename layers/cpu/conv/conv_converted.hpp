#pragma once

#include <memory>

#include "layers/cpu/conv/conv_algorithm.hpp"

namespace cohort {

/// The problem with both tensors in that type.
[[nodiscard]] ConvProblem in_type(ConvProblem problem, ElementType type);

/// An algorithm for tensors of another type: each slice's tensors are converted in scratch memory,
/// while they are in cache. Where the problem has that type, the algorithm itself.
/// @param inner  made of in_type(problem, type)
[[nodiscard]] std::unique_ptr<ConvProduct> converted(std::unique_ptr<ConvProduct> inner,
                                                     const ConvProblem& problem,
                                                     ConvDirection direction, ElementType type);
[[nodiscard]] std::unique_ptr<ConvWeightGradient> converted(
    std::unique_ptr<ConvWeightGradient> inner, const ConvProblem& problem, ElementType type);

}  // namespace cohort
