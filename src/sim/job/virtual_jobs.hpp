#pragma once

#include <memory>

#include "sim/job/virtual_job.hpp"

namespace cohort {

/// Jobs by architecture. @param cluster, learner outlive them. Errors: UsageError for a mode.
[[nodiscard]] std::unique_ptr<VirtualJob> make_servers_job(VirtualCluster& cluster,
                                                           Learner& learner, JobSpec spec);
[[nodiscard]] std::unique_ptr<VirtualJob> make_ring_job(VirtualCluster& cluster, Learner& learner,
                                                        JobSpec spec);

}  // namespace cohort
