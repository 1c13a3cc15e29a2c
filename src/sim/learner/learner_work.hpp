#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sim/learner/learner.hpp"
#include "sim/learner/learner_pool.hpp"
#include "sim/learner/learner_store.hpp"

namespace cohort {

/// What all computations of a run share.
struct LearnerParts {
    const Graph& graph;
    const SampleMemory& samples;
    ParameterStore& store;
    std::uint64_t seed = 0;  ///< of dropout
    std::atomic<std::int64_t> computed{0};
};

/// A worker's own optimizer, for its local steps. One computation at a time uses it.
struct LocalState {
    std::uint64_t generation = 0;
    std::unique_ptr<Optimizer> optimizer;  ///< null: nothing remembered
};

/// What one worker computes, and what came out of it.
struct LearnerWork {
    Learner::Job job;
    std::vector<std::int64_t> ids;      ///< samples of job.slice
    std::shared_ptr<LocalState> local;  ///< kDelta
    std::atomic<bool> unwanted{false};
    Learner::Outcome outcome;
    std::shared_ptr<float> values;  ///< [parameters, state]: gradient or delta, batch statistics

    /// Samples [first, second) are those of local step `step`.
    [[nodiscard]] std::pair<std::int64_t, std::int64_t> piece(int step) const noexcept;
};

/// The computation of one worker or of a group.
class WorkTask : public LearnerTask {
public:
    WorkTask(LearnerParts& parts, std::vector<std::shared_ptr<LearnerWork>> works)
        : parts_(parts), works_(std::move(works)) {}
    [[nodiscard]] bool unwanted() const;

protected:
    [[nodiscard]] LearnerParts& parts() noexcept { return parts_; }
    [[nodiscard]] std::span<const std::shared_ptr<LearnerWork>> works() const { return works_; }
    /// Forward and backward of `batch` with the engine's parameters; gradient and batch statistics
    /// go to `to` unless it is null. Adds to the work's loss and hits.
    /// @return the gradient's sum of squares; negative: given up
    double compute(LearnerWork& work, LearnerEngine& engine, const BatchView& batch, float* to);
    /// One local step.
    void update(LearnerWork& work, std::span<float> theta, std::span<const float> gradient) const;
    /// The delta from the work's start to `theta` into work.values, and what goes with it.
    /// @param statistics sums over `counted` samples  @param finite all steps so far
    void finish(LearnerWork& work, std::span<const float> theta, std::span<const double> statistics,
                std::int64_t counted, bool finite);
    [[nodiscard]] std::size_t parameters() const;
    [[nodiscard]] std::size_t state() const;

private:
    LearnerParts& parts_;
    std::vector<std::shared_ptr<LearnerWork>> works_;
};

/// A mean gradient.
class GradientTask final : public WorkTask {
public:
    using WorkTask::WorkTask;
    bool run(LearnerEngine& engine) override;

private:
    double compute_halves(LearnerWork& work, LearnerEngine& engine);
};

/// Some steps on parameters of its own, as LocalSteps takes them.
class LocalTask final : public WorkTask {
public:
    using WorkTask::WorkTask;
    bool run(LearnerEngine& engine) override;
};

/// The same in a group that averages the gradients of every step, weighted by samples and in the
/// order of members. Threads compute members of a step at the same time.
class GroupTask final : public WorkTask, public std::enable_shared_from_this<GroupTask> {
public:
    /// @param pool takes the next steps; submit(task, works) begins the first
    GroupTask(LearnerParts& parts, std::vector<std::shared_ptr<LearnerWork>> works,
              LearnerPool& pool);
    bool run(LearnerEngine& engine) override;

private:
    struct Member {
        std::shared_ptr<float> theta;
        std::shared_ptr<float> gradient;
        std::int64_t samples = 0;  ///< of this step
        bool finite = true;
    };
    void compute_member(std::size_t index, LearnerEngine& engine);
    /// All members of the step are computed. @return false: that was the last step
    [[nodiscard]] bool end_step();
    void finish_all(bool finite);

    LearnerPool& pool_;
    std::vector<Member> members_;
    std::shared_ptr<float> sum_;
    std::shared_ptr<float> average_;
    std::vector<double> statistics_;  ///< sums over samples
    std::int64_t counted_ = 0;        ///< samples in them
    int step_ = 0;
    std::atomic<std::size_t> next_{0};  ///< member of this step
    std::atomic<std::size_t> left_;     ///< members of this step that are not done
};

}  // namespace cohort
