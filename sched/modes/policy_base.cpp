#include "sched/modes/policy_base.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/cost/worker_grouping.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kFirstLook = 4;  ///< pushes of each worker before the first look

}  // namespace

PolicyBase::PolicyBase(Mode mode, const ModeSetting& setting)
    : mode_(std::move(mode)), setting_(setting) {
    setting_.own_seconds.resize(setting_.live.size(), 0);
    index_live();
    next_look_ = kFirstLook * static_cast<std::int64_t>(live_.size());
    times_ = own_times(setting_.own_seconds, live_);
}

/// The batches too: another policy may have changed them.
Decision PolicyBase::start() {
    return {.plan = make_plan(mode_, setting_),
            .batches = std::vector<std::int64_t>(setting_.live.size(), setting_.batch),
            .reason = ""};
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
    return {.plan = make_plan(mode_, setting_), .batches = {}, .reason = std::move(reason)};
}

/// Takes over the live workers and their times. True when workers were lost or joined.
bool PolicyBase::note(const Telemetry& telemetry) {
    check_invariant(telemetry.workers.size() == setting_.live.size(), "telemetry of every worker");
    bool changed = false;
    const std::int64_t before = std::exchange(pushes_, 0);
    for (std::size_t i = 0; i < telemetry.workers.size(); ++i) {
        const WorkerTelemetry& worker = telemetry.workers[i];
        changed = changed || setting_.live[i] != worker.live;
        setting_.live[i] = worker.live;
        setting_.own_seconds[i] = worker.own_seconds;
        pushes_ += worker.pushes;
    }
    next_look_ += std::min<std::int64_t>(pushes_ - before,
                                         0);  // pushes of a worker that joined again start from 0
    if (changed) {
        index_live();
        times_ = own_times(setting_.own_seconds, live_);
        next_look_ = pushes_ + static_cast<std::int64_t>(live_.size());
    }
    return changed;
}

void PolicyBase::index_live() {
    live_.clear();
    for (std::size_t i = 0; i < setting_.live.size(); ++i) {
        if (setting_.live[i]) {
            live_.push_back(static_cast<int>(i));
        }
    }
}

std::string list_of(const std::vector<int>& workers) {
    return fmt::format("{}", fmt::join(workers, " "));
}

}  // namespace cohort
