#include "sched/plan/node_staging.hpp"

#include <algorithm>

namespace cohort {

std::vector<bool> staging_nodes(const std::vector<NodeRanks>& nodes, NodeStaging choice,
                                bool deterministic) {
    const bool none =
        choice == NodeStaging::kOff || (choice == NodeStaging::kAuto && deterministic);
    std::vector<bool> staging;
    for (const NodeRanks& node : nodes) {
        staging.push_back(!none && node.workers > 1 &&
                          (node.servers == 0 || choice == NodeStaging::kOn));
    }
    return staging;
}

bool stages_pushes(const SyncPlan& plan, int worker) {
    if (plan.delay_compensation > 0 || plan.validate_every > 0 ||
        plan.release != SyncPlan::Release::kOnFire) {
        return false;
    }
    return std::any_of(plan.cohorts.begin(), plan.cohorts.end(), [worker](const CohortSpec& one) {
        const auto member = std::find(one.members.begin(), one.members.end(), worker);
        return one.quorum > 1 && member != one.members.end();
    });
}

}  // namespace cohort
