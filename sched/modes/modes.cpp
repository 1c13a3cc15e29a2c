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

[[noreturn]] void fail_word(std::string_view option, std::string_view what,
                            std::string_view expected, std::string_view got) {
    fail<UsageError>(
        {.where = option, .what = what, .expected = expected, .got = fmt::format("'{}'", got)});
}

}  // namespace

Architecture parse_architecture(std::string_view text) {
    if (text == "servers") {
        return Architecture::kServers;
    }
    if (text == "ring") {
        return Architecture::kRing;
    }
    fail_word("--arch", "unknown architecture", "servers or ring", text);
}

StaleMomentum parse_stale_momentum(std::string_view text) {
    if (text == "look-ahead") {
        return StaleMomentum::kLookAhead;
    }
    if (text == "keep") {
        return StaleMomentum::kKeep;
    }
    fail_word("--stale-momentum", "unknown treatment of momentum", "look-ahead or keep", text);
}

SyncPlan::LrUnit parse_lr_rule(std::string_view text) {
    if (text == "per-sample") {
        return SyncPlan::LrUnit::kPerSample;
    }
    if (text == "published") {
        return SyncPlan::LrUnit::kPublished;
    }
    if (text == "adascale") {
        return SyncPlan::LrUnit::kAdaScale;
    }
    fail_word("--lr-rule", "unknown rule", "per-sample, published or adascale", text);
}

SyncPlan make_plan(std::string_view mode, const ModeSetting& setting) {
    const ParsedMode parsed = parse_mode(mode, setting);
    if (parsed.lr_scale) {
        return make_plan(parsed.unscaled, scaled(setting, *parsed.lr_scale));
    }
    ModeRequest request{.setting = setting, .values = parsed.values, .live = {}};
    for (std::size_t worker = 0; worker < setting.live.size(); ++worker) {
        if (setting.live[worker]) {
            request.live.push_back(static_cast<int>(worker));
        }
    }
    check_invariant(!request.live.empty(), "a plan is for at least one worker");
    SyncPlan plan = parsed.entry->plan(request);
    if (plan.name.empty()) {
        plan.name = mode;
    }
    complete(plan, setting);
    return plan;
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
