#pragma once

#include <cstdint>
#include <vector>

#include "sched/cost/own_times.hpp"

namespace cohort {

/// Samples of a lease for each worker, in proportion to its speed: of all ways to hand out
/// times.size() * batch samples in pieces of batch/8, the one in which the slowest worker is done
/// first. Each worker gets at least a piece and at most two batches; a remainder smaller than a
/// piece goes to the fastest worker.
/// @param times  own times of a lease of `batch` samples, > 0
[[nodiscard]] std::vector<std::int64_t> proportional_batches(const std::vector<double>& times,
                                                             std::int64_t batch);

/// As proportional_batches, for workers whose time is not proportional to their work, in pieces of
/// batch/32 but at least batch/8 for each.
/// @param costs  costs of a lease, transfers included
[[nodiscard]] std::vector<std::int64_t> balanced_batches(const std::vector<CostLine>& costs,
                                                         std::int64_t batch);

/// Batches with the same sum, as equal as possible: workers that take more than a fifth longer than
/// the median hand pieces of batch/8 to the fastest workers.
[[nodiscard]] std::vector<std::int64_t> helped_batches(const std::vector<double>& times,
                                                       std::int64_t batch);

/// samples * time
[[nodiscard]] std::vector<double> lease_times(const std::vector<std::int64_t>& samples,
                                              const std::vector<double>& times);

}  // namespace cohort
