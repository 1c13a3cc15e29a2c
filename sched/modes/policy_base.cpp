#include "sched/modes/policy_base.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/cost/worker_grouping.hpp"
#include "sched/modes/mode_table.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kFirstLook = 4;  ///< pushes of each worker before the first look

}  // namespace

PolicyBase::PolicyBase(Mode mode, const ModeSetting& setting)
    : mode_(std::move(mode)), setting_(setting) {
    setting_.own_seconds.resize(setting_.live.size(), 0);
    live_ = live_workers(setting_);
    next_look_ = kFirstLook * static_cast<std::int64_t>(live_.size());
    times_ = own_times(setting_.own_seconds, live_);
}

/// The batches too: another policy may have changed them.
Decision PolicyBase::start() {
    Decision first = PolicyBase::remake("");
    first.batches.assign(setting_.live.size(), setting_.batch);
    return first;
}

Decision PolicyBase::decide(const Telemetry& telemetry) {
    const int before = static_cast<int>(live_.size());
    const bool changed = note(telemetry);
    if (live_.empty()) {
        return {};
    }
    if (!changed) {
        return adapt(telemetry);
    }
    wished_ = false;
    return regroup(telemetry, fmt::format("{} workers live, {} before",
                                          static_cast<int>(live_.size()), before));
}

bool PolicyBase::looks(const RunCounts& counts) const {
    return counts.pushes >= next_look_;
}

bool PolicyBase::due() {
    if (pushes_ < next_look_) {
        return false;
    }
    next_look_ = pushes_ + static_cast<std::int64_t>(live_.size());
    times_ = own_times(setting_.own_seconds, live_);
    return true;
}

std::vector<double> PolicyBase::predicted_times(const Telemetry& telemetry, int iterations) const {
    std::vector<double> seconds(setting_.live.size(), 0);
    for (std::size_t i = 0; i < live_.size(); ++i) {
        const int worker = live_[i];
        const double forecast =
            telemetry.load == nullptr ? 0 : telemetry.load->forecast.mean(worker, iterations);
        seconds[static_cast<std::size_t>(worker)] = forecast > 0 ? forecast : times_[i];
    }
    return own_times(seconds, live_);
}

Decision PolicyBase::adapt(const Telemetry& /*telemetry*/) {
    if (!due()) {
        return {};
    }
    const bool before = std::exchange(wished_, wishes());
    if (!before || !wished_) {
        return {};
    }
    wished_ = false;
    return change();
}

Decision PolicyBase::remake(std::string reason) {
    SyncPlan plan = make_plan(mode_, setting_);
    adopt(plan);
    return {.plan = std::move(plan), .batches = {}, .reason = std::move(reason)};
}

/// Takes over the live workers and their times. True when workers were lost or joined.
bool PolicyBase::note(const Telemetry& telemetry) {
    check_invariant(telemetry.workers.size() == setting_.live.size(), "telemetry of every worker");
    bool changed = false;
    const std::int64_t before = std::exchange(pushes_, 0);
    for (std::size_t i = 0; i < telemetry.workers.size(); ++i) {
        const WorkerReport& worker = telemetry.workers[i];
        changed = changed || setting_.live[i] != worker.live;
        setting_.live[i] = worker.live;
        setting_.own_seconds[i] = worker.own_s;
        pushes_ += worker.pushes;
    }
    next_look_ += std::min<std::int64_t>(pushes_ - before,
                                         0);  // pushes of a worker that joined again start from 0
    if (changed) {
        live_ = live_workers(setting_);
        times_ = own_times(setting_.own_seconds, live_);
        next_look_ = pushes_ + static_cast<std::int64_t>(live_.size());
    }
    return changed;
}

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
