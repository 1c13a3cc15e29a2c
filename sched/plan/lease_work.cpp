#include "sched/plan/lease_work.hpp"

#include <algorithm>
#include <utility>

#include "cohort/sched/modes.hpp"

namespace cohort {

int steps_per_push(const SyncPlan& plan) noexcept {
    return plan.work == Work::kDelta ? std::max(plan.local_steps, 1) : 1;
}

std::int32_t local_steps_of(std::int64_t samples, std::int64_t batch,
                            const SyncPlan& plan) noexcept {
    const std::int64_t each = std::max<std::int64_t>(batch, 1);
    return static_cast<std::int32_t>(
        std::clamp<std::int64_t>((samples + each / 2) / each, 1, steps_per_push(plan)));
}

int leases_ahead(const SyncPlan& plan) {
    constexpr int kWaiting = 4;
    constexpr int kAlone = 2;
    if (is_synchronous(plan)) {
        return kWaiting;
    }
    return kAlone + (plan.release == SyncPlan::Release::kOnArrival ? plan.window - 1 : 0);
}

std::int64_t short_lease_of(std::int64_t batch) noexcept {
    constexpr std::int64_t kShorter = 8;
    return std::max<std::int64_t>(1, batch / kShorter);
}

std::vector<std::vector<int>> averaging_groups(const SyncPlan& plan,
                                               const std::vector<bool>& live) {
    std::vector<std::vector<int>> groups;
    for (const CohortSpec& cohort : plan.cohorts) {
        std::vector<int> group;
        for (const int member : cohort.members) {
            if (!live[static_cast<std::size_t>(member)]) {
                continue;
            }
            group.push_back(member);
            if (static_cast<int>(group.size()) == plan.group) {
                groups.push_back(std::exchange(group, {}));
            }
        }
        if (!group.empty()) {
            groups.push_back(std::move(group));
        }
    }
    return groups;
}

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
    return std::ranges::any_of(plan.cohorts, [worker](const CohortSpec& one) {
        const auto member = std::ranges::find(one.members, worker);
        return one.quorum > 1 && member != one.members.end();
    });
}

LeaseShape lease_shape_of(const SyncPlan& plan, const std::vector<bool>& live,
                          std::vector<bool> staged) {
    return {
        .work = plan.work,
        .steps = steps_per_push(plan),
        .groups = plan.group > 1 ? averaging_groups(plan, live) : std::vector<std::vector<int>>(),
        .staged = std::move(staged)};
}

}  // namespace cohort
