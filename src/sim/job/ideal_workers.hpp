#pragma once

#include <functional>
#include <optional>

#include "sim/cluster/cluster.hpp"
#include "sim/job/job_spec.hpp"

namespace cohort {

/// Samples per second of a job's workers if nobody waited for anybody: each computes batch after
/// batch under the cluster's scenario, and an exchange takes what it takes when nobody else sends;
/// when all together want more of a network card than it carries, those who use it are slower by
/// that factor. Servers answer at once. An upper bound of what modes that exchange once per batch
/// can reach; docs/simulate.md defines it.
/// @param cluster  is started, and runs for so many seconds
/// @param stop  asked now and then; true ends it
/// @return of all workers: each one's samples over the time until the end of its last iteration.
/// None: no worker has ended an iteration, an iteration took no time, or `stop` ended it.
[[nodiscard]] std::optional<double> ideal_samples_s(VirtualCluster& cluster, const JobSpec& spec,
                                                    double seconds,
                                                    const std::function<bool()>& stop);

}  // namespace cohort
