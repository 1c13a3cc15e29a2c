#pragma once

#include <memory>

#include "cohort/layers/kernel.hpp"
#include "layers/cpu/conv/conv_algorithm.hpp"

namespace cohort {

/// The algorithm for one direction, prepared for slices of `samples` samples: the fastest of all
/// that there are here for this shape, by a measurement that the context's TuningCache keeps, or in
/// deterministic mode the first by a fixed rule. Never a reference implementation: our own takes
/// everything.
[[nodiscard]] std::unique_ptr<ConvProduct> choose_conv(const ConvProblem& problem,
                                                       ConvDirection direction,
                                                       std::int64_t samples,
                                                       const KernelContext& context);
[[nodiscard]] std::unique_ptr<ConvWeightGradient> choose_conv_gradient(
    const ConvProblem& problem, std::int64_t samples, const KernelContext& context);

/// Our own, which takes every shape and every slice size.
[[nodiscard]] std::unique_ptr<ConvProduct> any_conv(const ConvProblem& problem,
                                                    ConvDirection direction);
[[nodiscard]] std::unique_ptr<ConvWeightGradient> any_conv_gradient(const ConvProblem& problem);

}  // namespace cohort
