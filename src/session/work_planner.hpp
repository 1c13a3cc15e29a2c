#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sched/plan/lease_work.hpp"
#include "session/training_session.hpp"

namespace cohort {

/// Decides what is to be done with the leases of a job with parameter servers, as the plan in force
/// wants it: their sizes, local steps, and who works on them together. Pure.
class WorkPlanner {
public:
    /// Whether a worker's pushes stay on its node under the plan in force.
    using Stages = std::function<bool(int worker)>;
    /// @param session  outlives it
    WorkPlanner(TrainingSession& session, Stages stages);

    /// Fills in the work of new leases.
    void plan_work(std::vector<DealtLease>& dealt);
    /// What the plan in force asks of leases.
    [[nodiscard]] LeaseShape shape() const;
    /// New leases are as the plan in force wants them.
    void shape_leases();
    /// Samples of a worker's gradient or local step.
    [[nodiscard]] const std::vector<std::int64_t>& batches() const noexcept { return batches_; }
    void set_batches(std::vector<std::int64_t> batches);
    /// By worker.
    [[nodiscard]] const std::vector<bool>& live() const noexcept { return live_; }
    /// A worker that is not live gets no leases.
    void set_live(int worker, bool live);
    /// Members of groups are others than before: exchanges between them begin anew.
    void new_generation() noexcept { ++generation_; }
    /// Workers that hold a lease which is worked on together with this worker.
    [[nodiscard]] std::vector<int> partners(int worker) const;
    /// The oldest lease that the worker holds is worked on in a group.
    [[nodiscard]] bool in_group(int worker) const;

private:
    void form_groups(std::vector<DealtLease>& dealt) const;

    TrainingSession& session_;
    Stages stages_;
    std::vector<bool> live_;             ///< by worker
    std::vector<std::int64_t> batches_;  ///< by worker
    std::uint64_t generation_ = 0;       ///< of groups
};

}  // namespace cohort
