#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
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
    std::uint64_t seed = 0;     ///< of dropout
    double clip_norm = 0;       ///< of local steps' gradients; 0: none
    double mean_clip_norm = 0;  ///< of updates' mean gradients; 0: none
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
    [[nodiscard]] bool unwanted() const {
        return std::all_of(works_.begin(), works_.end(),
                           [](const auto& work) { return work->unwanted.load(); });
    }

protected:
    LearnerParts& parts_;
    const std::vector<std::shared_ptr<LearnerWork>> works_;
};

/// A mean gradient, or some steps on parameters of its own, as LocalSteps takes them.
[[nodiscard]] std::shared_ptr<WorkTask> make_task(LearnerParts& parts,
                                                  const std::shared_ptr<LearnerWork>& work);
/// Local steps of a group that averages the gradients of every step, weighted by samples and in the
/// order of members. Threads compute members of a step at the same time.
/// @param pool takes the next steps; submit(task, works) begins the first
[[nodiscard]] std::shared_ptr<WorkTask> make_group_task(
    LearnerParts& parts, const std::vector<std::shared_ptr<LearnerWork>>& works, LearnerPool& pool);

}  // namespace cohort
