#pragma once

#include <cstdint>
#include <vector>

#include "cohort/sched/plan.hpp"

namespace cohort {

/// Local steps between two pushes; 1 for gradients.
[[nodiscard]] int steps_per_push(const SyncPlan& plan) noexcept;

/// Local steps of a lease of `samples`, of about `batch` samples each: a lease that the end of an
/// epoch cuts short has fewer steps of the same size.
[[nodiscard]] std::int32_t local_steps_of(std::int64_t samples, std::int64_t batch,
                                          const SyncPlan& plan) noexcept;

/// Leases that a worker with parameter servers holds, so that batches are loaded before they are
/// used: in modes that wait those of rounds that are under way, in others one that it works on and
/// one that is loaded, and one for every push more than one that may be pending.
[[nodiscard]] int leases_ahead(const SyncPlan& plan);
/// Samples for a worker that is too slow for a whole batch: an eighth of it.
[[nodiscard]] std::int64_t short_lease_of(std::int64_t batch) noexcept;

/// Who averages at every local step: consecutive live members of a cohort, SyncPlan::group at a
/// time. @param live by worker
[[nodiscard]] std::vector<std::vector<int>> averaging_groups(const SyncPlan& plan,
                                                             const std::vector<bool>& live);

/// What leases ask for beside samples: of those dealt ahead, one of another shape is not used up.
struct LeaseShape {
    Work work = Work::kGradient;
    int steps = 1;                         ///< local ones
    std::vector<std::vector<int>> groups;  ///< workers that average
    std::vector<bool> staged;              ///< by worker: its payload stays on its node
    friend bool operator==(const LeaseShape&, const LeaseShape&) = default;
};
/// @param live by worker
[[nodiscard]] LeaseShape lease_shape_of(const SyncPlan& plan, const std::vector<bool>& live,
                                        std::vector<bool> staged);

}  // namespace cohort
