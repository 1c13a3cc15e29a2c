#pragma once

#include <vector>

#include "cohort/sched/job_options.hpp"
#include "cohort/sched/plan.hpp"

namespace cohort {

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

}  // namespace cohort
