#pragma once

#include <tuple>
#include <vector>

#include "cohort/recorded/profile.hpp"
#include "sched/fleet/placement.hpp"
#include "sim/job/job_spec.hpp"

namespace cohort {

/// What a job takes of its nodes under a plan, at the pace that it would have alone.
struct JobNeeds {
    PlacedJob placed;                ///< with rings: without servers
    std::vector<NodeUse> ring = {};  ///< with rings: shares of the nodes' capacities, by node
    double samples_s = 0;            ///< alone

    auto fields() { return std::tie(placed, ring, samples_s); }
};

/// Where the servers of a job are, and what part of the parameters each has.
struct ServersOfJob {
    std::vector<int> nodes;      ///< empty: to be placed
    std::vector<double> shares;  ///< empty: none, rings
};

/// Needs of a job in closed form; time_plan does the rest. Own time of a worker: input, forward,
/// the rest of backward beside the push, the servers' update beside the pull (docs/simulate.md).
/// * Where an update takes several pushes, the transfers of all workers meet: each takes as long as
///   the slowest card needs for all. Nodes that stage pushes send their sum.
/// * Otherwise workers transfer alone, but all no faster than the busiest card carries them.
/// * Servers without nodes count as if each had a node of its own.
/// * Batches are those of the job's options; averages within groups of workers take nothing; of
///   several cohorts the first one counts.
[[nodiscard]] JobNeeds needs_of(const JobSpec& spec, const ClusterProfile& profile, int nodes,
                                const ServersOfJob& servers, const SyncPlan& plan);

}  // namespace cohort
