#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "comm/allreduce/all_reduce.hpp"
#include "train/worker/worker_context.hpp"

namespace cohort {

/// The steps that a worker takes on its own between two pushes (post-local SGD, Lin et al. 2020;
/// hierarchical SGD): sgd or adamw with state of its own, which stays from lease to lease of
/// a generation (WorkOrder).
class LocalSteps {
public:
    /// @param floats of a delta: parameters, then batch statistics
    LocalSteps(WorkerContext& context, std::int64_t floats);
    ~LocalSteps();

    struct Result {
        BatchResult result;    ///< over all steps
        bool finite = true;    ///< losses, gradients and the delta
        double squares = 0;    ///< sum of squares of the delta
        double compute_s = 0;  ///< local step time
    };
    /// Trains on `batch` in work.steps pieces of about equal size, starting at the replica's
    /// parameters, which are the same again afterwards. `delta` becomes the change of parameters
    /// (end - start), then the mean of the batch statistics, weighted by samples.
    /// @param group  averages the gradients of every step with the other members, weighted by
    ///               samples, an exchange of `floats`; null: alone
    /// @param group_round  first of work.steps rounds of it; fewer are used when a member gives up
    ///               or a gradient is not finite, then by all members
    /// @param give_up  asked between layers. Nothing when it said true here or at another member of
    ///               the group, or when the group broke; `delta` is undefined then, and the
    ///               optimizer's state is forgotten.
    [[nodiscard]] std::optional<Result> run(const LoadedBatch& batch, const WorkOrder& work,
                                            AllReduce* group, std::uint64_t group_round,
                                            std::span<float> delta,
                                            const std::function<bool()>& give_up);
    /// Forgets the local optimizer's state: the worker's parameters come from elsewhere now.
    void forget();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

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
