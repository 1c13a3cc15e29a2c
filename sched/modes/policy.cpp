#include "cohort/sched/policy.hpp"

#include <utility>

#include "sched/modes/mode_table.hpp"
#include "sched/modes/policies.hpp"
#include "sched/modes/policy_base.hpp"

namespace cohort {

std::unique_ptr<ModePolicy> make_policy(const Mode& mode, const ModeSetting& setting) {
    if (mode.lr_scale) {
        return make_policy({.text = mode.unscaled(), .entry = mode.entry, .values = mode.values},
                           scaled(setting, *mode.lr_scale));
    }
    if (setting.chooser.record_rates) {
        return make_recording_policy(mode, setting);
    }
    return mode.entry->policy == nullptr ? std::make_unique<PolicyBase>(mode, setting)
                                         : mode.entry->policy(mode, setting);
}

std::unique_ptr<ModePolicy> make_policy(std::string_view mode, const ModeSetting& setting) {
    return make_policy(parse_mode(mode, setting), setting);
}

std::vector<SyncPlan> plans_of_mode(const Mode& mode, const ModeSetting& setting) {
    const std::unique_ptr<ModePolicy> policy = make_policy(mode, setting);
    std::vector<SyncPlan> plans{policy->start().plan.value()};
    Telemetry end{.samples_applied = 1, .budget_samples = 1, .updates = 1, .workers = {}};
    end.workers.resize(setting.live.size());
    if (auto plan = policy->decide(end).plan) {
        plans.push_back(std::move(*plan));
    }
    return plans;
}

void OwnTime::add(double seconds) {
    constexpr double kShare = 0.2;
    constexpr double kJump = 0.5;
    constexpr int kInARow = 3;
    last_ = seconds;
    if (mean_ == 0) {
        mean_ = seconds;
        return;
    }
    const int jump = seconds > (1 + kJump) * mean_ ? 1 : seconds < (1 - kJump) * mean_ ? -1 : 0;
    jumps_ = jump == 0 ? 0 : jump * jumps_ > 0 ? jumps_ + jump : jump;
    if (jumps_ == kInARow || jumps_ == -kInARow) {
        mean_ = seconds;
        jumps_ = 0;
        return;
    }
    mean_ += kShare * (seconds - mean_);
}

}  // namespace cohort
