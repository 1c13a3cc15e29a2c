#pragma once

#include <cstdint>
#include <vector>

#include "cohort/sched/job_options.hpp"
#include "cohort/sched/plan.hpp"

namespace cohort {

/// Local steps between two pushes; 1 for gradients.
[[nodiscard]] int steps_per_push(const SyncPlan& plan) noexcept;

/// Local steps of a lease of `samples`, of about `batch` samples each: a lease that the end of an
/// epoch cuts short has fewer steps of the same size.
[[nodiscard]] std::int32_t local_steps_of(std::int64_t samples, std::int64_t batch,
                                          const SyncPlan& plan) noexcept;

/// Number of leases that a worker with parameter servers holds, so that batches are loaded before
/// they are used: in modes that wait the leases of the rounds in progress, in others one to compute
/// and one to load, and one more for every pending push allowed beyond the first.
[[nodiscard]] int leases_ahead(const SyncPlan& plan);
/// Samples for a worker that is too slow for a whole batch: an eighth of it.
[[nodiscard]] std::int64_t short_lease_of(std::int64_t batch) noexcept;

/// Workers that average at every local step: consecutive live members of a cohort, SyncPlan::group
/// at a time. @param live  by worker
[[nodiscard]] std::vector<std::vector<int>> averaging_groups(const SyncPlan& plan,
                                                             const std::vector<bool>& live);

/// Ranks of a job on a node.
struct NodeRanks {
    int workers = 0;
    int servers = 0;
};

/// Nodes whose workers stage their pushes there and send their sum, see docs/servers.md; by node.
[[nodiscard]] std::vector<bool> staging_nodes(const std::vector<NodeRanks>& nodes,
                                              NodeStaging choice, bool deterministic);

/// Whether a worker's pushes may be summed before they are sent: when updates are made of several
/// pushes that wait for each other. Delay compensation and comparison with a reference need each
/// gradient by itself.
[[nodiscard]] bool stages_pushes(const SyncPlan& plan, int worker);

/// Properties of leases besides samples: a lease dealt ahead with another shape is returned, not
/// used up.
struct LeaseShape {
    Work work = Work::kGradient;
    int steps = 1;                         ///< local steps
    std::vector<std::vector<int>> groups;  ///< workers that average
    std::vector<bool> staged;              ///< by worker: payloads of its pushes stay on its node
    friend bool operator==(const LeaseShape&, const LeaseShape&) = default;
};
/// @param live by worker
[[nodiscard]] LeaseShape lease_shape_of(const SyncPlan& plan, const std::vector<bool>& live,
                                        std::vector<bool> staged);

}  // namespace cohort
