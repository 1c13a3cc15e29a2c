#include "cohort/sched/modes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cohort/core/error.hpp"
#include "sched/modes/mode_table.hpp"

namespace cohort {
namespace {

/// Whether pushes are applied although other pushes were applied since their version.
bool pushes_may_lag(const SyncPlan& plan) {
    const bool only_fresh =
        plan.late == SyncPlan::Late::kDrop &&
        std::all_of(plan.cohorts.begin(), plan.cohorts.end(), [](const CohortSpec& cohort) {
            return cohort.fresh_only && cohort.riders.empty();
        });
    const bool one = plan.cohorts.size() == 1;
    return !is_synchronous(plan) && !(one && only_fresh);
}

/// Sets the fields that the setting determines for every plan.
void complete(SyncPlan& plan, const ModeSetting& setting) {
    plan.lr_unit = setting.lr_rule;
    plan.look_ahead = setting.stale_momentum == StaleMomentum::kLookAhead && pushes_may_lag(plan);
    if (plan.lr_scale != setting.lr_scale) {  // else the scale is part of the mode's own name
        plan.lr_scale = setting.lr_scale;
        plan.name += fmt::format("@{}", plan.lr_scale);
    }
}

}  // namespace

SyncPlan make_plan(const Mode& mode, const ModeSetting& setting) {
    if (mode.lr_scale) {
        Mode unscaled = mode;
        unscaled.lr_scale.reset();
        return make_plan(unscaled, scaled(setting, *mode.lr_scale));
    }
    ModeRequest request{.setting = setting, .values = mode.values, .live = {}};
    for (std::size_t worker = 0; worker < setting.live.size(); ++worker) {
        if (setting.live[worker]) {
            request.live.push_back(static_cast<int>(worker));
        }
    }
    check_invariant(!request.live.empty(), "a plan is for at least one worker");
    SyncPlan plan = mode.entry->plan(request);
    if (plan.name.empty()) {
        plan.name = mode.unscaled();
    }
    complete(plan, setting);
    return plan;
}

SyncPlan make_plan(std::string_view mode, const ModeSetting& setting) {
    return make_plan(parse_mode(mode, setting), setting);
}

SyncPlan grouped_plan(const std::vector<std::vector<int>>& groups, const ModeSetting& setting) {
    SyncPlan plan;
    plan.name = "dynamic";
    for (const std::vector<int>& group : groups) {
        plan.cohorts.push_back(
            {.members = group, .riders = {}, .quorum = static_cast<int>(group.size())});
    }
    plan.published_unit = reference_batch_of(setting);
    complete(plan, setting);
    return plan;
}

std::int64_t reference_batch_of(const ModeSetting& setting) noexcept {
    const std::int64_t workers = setting.workers_at_start > 0
                                     ? setting.workers_at_start
                                     : static_cast<std::int64_t>(setting.live.size());
    return workers * setting.batch;
}

std::string default_mode(Architecture architecture) {
    return architecture == Architecture::kRing ? "ring" : "ssgd";
}

bool is_synchronous(const SyncPlan& plan) {
    if (plan.cohorts.size() != 1 || plan.release != SyncPlan::Release::kOnFire) {
        return false;
    }
    const CohortSpec& all = plan.cohorts.front();
    return all.riders.empty() && static_cast<std::size_t>(all.quorum) >= all.members.size() &&
           all.count == CohortSpec::Count::kWorkers;
}

}  // namespace cohort
