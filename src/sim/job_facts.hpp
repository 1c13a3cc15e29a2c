#pragma once

#include "cohort/sched/chooser_options.hpp"
#include "cohort/sim/profile.hpp"
#include "virtual_job.hpp"

namespace cohort {

/// What pushes and updates of a job need of its servers when nothing slows them down; all 0 with
/// rings. The network: of a round in which every worker pushes once and pulls once, what goes over
/// the busiest card of a server's node in one direction, per worker. What stays on a node does not.
[[nodiscard]] SharedCapacity capacity_of(const JobSpec& spec, const ClusterProfile& profile);

/// For choosers. @param momentum  of the optimizer  @param flops_per_sample  of the network
[[nodiscard]] JobFacts job_facts(const JobSpec& spec, const ClusterProfile& profile,
                                 double momentum, double flops_per_sample);

}  // namespace cohort
