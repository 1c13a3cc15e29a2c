#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "comm/allreduce/all_reduce.hpp"
#include "train/protocol/protocol_ring.hpp"
#include "train/worker/worker_context.hpp"
#include "train/worker/worker_observer.hpp"

namespace cohort {

/// The steps that a worker takes on its own between two pushes (post-local SGD, Lin et al. 2020;
/// hierarchical SGD): sgd or adamw with state of its own, which stays from lease to lease of
/// a generation (WorkOrder).
class LocalSteps {
public:
    /// @param floats of a delta: parameters, then batch statistics
    LocalSteps(WorkerContext& context, std::int64_t floats);

    struct Result {
        BatchResult result;      ///< over all steps
        bool finite = true;      ///< losses, gradients and the delta, of the whole group
        bool own_finite = true;  ///< this worker's own: false: the lease is to blame
        double squares = 0;      ///< sum of squares of the delta
        double compute_s = 0;    ///< own time
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
    void forget() { optimizer_.reset(); }

private:
    enum class End : std::uint8_t { kDone, kNotFinite, kGivenUp };

    [[nodiscard]] End step(const BatchView& piece, double lr, const std::function<bool()>& give_up);
    [[nodiscard]] End group_step(const BatchView& piece, double lr, AllReduce& group,
                                 std::uint64_t round, const std::function<bool()>& give_up);
    [[nodiscard]] RoundSummary compute(const BatchView& piece, GradientObserver& observer);
    [[nodiscard]] End average_of(const std::vector<RoundSummary>& summaries,
                                 std::span<const float> sum);
    void update(double lr);
    void keep(std::span<const float> batch_state, std::int64_t samples);
    void finish(std::span<float> delta);

    WorkerContext& context_;
    TrainableModel& replica_;
    std::unique_ptr<Optimizer> optimizer_;  ///< null: nothing remembered
    std::vector<float> start_;
    std::vector<double> statistics_;  ///< sums over samples
    std::uint64_t generation_ = 0;    ///< of the work before
    std::vector<float> average_;      ///< of a group's gradients and statistics
    std::vector<float> summed_;       ///< the sums, of an exchange in device memory
    std::int64_t counted_ = 0;        ///< samples in `statistics_`
    Result run_;                      ///< of the lease
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
