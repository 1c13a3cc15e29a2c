#pragma once

#include <cstdint>
#include <vector>

#include "sched/cost/own_times.hpp"

namespace cohort {

/// Samples of a lease for each worker, in proportion to its speed: of all ways to hand out
/// times.size() * batch samples in pieces of batch/8, the one in which the slowest is done first.
/// At least a piece and at most two batches each; what is no whole piece goes to the fastest.
/// @param times  own times of a lease of `batch` samples, > 0
[[nodiscard]] std::vector<std::int64_t> proportional_batches(const std::vector<double>& times,
                                                             std::int64_t batch);

/// The same for workers whose time is not in proportion to their work, in pieces of batch/32 but at
/// least batch/8 for each.
/// @param costs  of a lease, transfers included
[[nodiscard]] std::vector<std::int64_t> balanced_batches(const std::vector<CostLine>& costs,
                                                         std::int64_t batch);

/// The same sum, as equal as it may be: who takes more than a fifth longer than the median
/// hands pieces of batch/8 to the fastest.
[[nodiscard]] std::vector<std::int64_t> helped_batches(const std::vector<double>& times,
                                                       std::int64_t batch);

/// samples * time
[[nodiscard]] std::vector<double> lease_times(const std::vector<std::int64_t>& samples,
                                              const std::vector<double>& times);

/// The upper one of an even number.
[[nodiscard]] double median_of(std::vector<double> values);

}  // namespace cohort
