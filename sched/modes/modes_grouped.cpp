#include <algorithm>

#include "sched/cost/worker_grouping.hpp"
#include "sched/modes/mode_table.hpp"
#include "sched/modes/policies.hpp"

// Modes that group or rank workers by their own times.
namespace cohort {
namespace {

constexpr double kAll = 1'000'000;  ///< more than any number of workers

SyncPlan dynamic(const ModeRequest& request) {
    const std::vector<double> times = own_times(request.setting.own_seconds, request.live);
    return grouped_plan(similar_groups(request.live, times), request.setting);
}

SyncPlan ring(const ModeRequest& request) {
    const int count = request.of_workers(0);
    const std::vector<double> times = own_times(request.setting.own_seconds, request.live);
    const std::vector<int> members = fastest(request.live, times, count);
    std::vector<int> riders;
    std::set_difference(request.live.begin(), request.live.end(), members.begin(), members.end(),
                        std::back_inserter(riders));
    SyncPlan plan;
    plan.cohorts.push_back({.members = members, .riders = std::move(riders), .quorum = count});
    plan.published_unit = request.reference_batch();
    return plan;
}

/// `ksync` with the k that maximises the work per second.
SyncPlan cutoff(const ModeRequest& request) {
    const int k = best_quorum(own_times(request.setting.own_seconds, request.live));
    return make_plan("ksync:" + std::to_string(k), request.setting);
}

}  // namespace

std::vector<ModeEntry> grouped_modes() {
    return {
        {.name = "dynamic", .parameters = {}, .plan = dynamic, .policy = make_dynamic_policy},
        {.name = "cutoff", .parameters = {}, .plan = cutoff, .policy = make_cutoff_policy},
        {.name = "ring",
         .servers = false,
         .rings = true,
         .parameters =
             {{.name = "X", .least = 1, .most = ModeParameter::Most::kWorkers, .fallback = kAll}},
         .plan = ring,
         .policy = make_ring_policy},
    };
}

}  // namespace cohort
