#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>

#include "train/worker/worker_context.hpp"

namespace cohort {

/// A mini-batch as two mini-batches of one version: its gradient, as without, and what the halves'
/// norms say of the gradient's noise (GradientStatistics).
struct SplitStep {
    BatchResult result;  ///< over both
    std::array<double, 2> squares{};
    double mean_squares = 0;             ///< of the mean over all samples
    std::optional<double> device_s = 0;  ///< WorkerCompute::device_seconds of both
};

/// @param gradient  becomes the mean gradient, then the batch statistics: [parameters, state]
/// @param give_up  asked between layers; nothing when it said true
[[nodiscard]] std::optional<SplitStep> train_split_batch(WorkerContext& context,
                                                         const LoadedBatch& batch,
                                                         std::span<float> gradient,
                                                         const std::function<bool()>& give_up);

}  // namespace cohort
