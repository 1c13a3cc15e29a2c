#include "sim/cluster/fluid_completions.hpp"

#include <algorithm>
#include <cmath>

namespace cohort::fluid {
namespace {

/// Moments nearer to each other than this, relative to the clock, are one.
constexpr double kMoment = 1e-13;

/// Where the items of a pool keep their position in a heap.
template <class Pool>
auto positions(Pool& pool) {
    return [&pool](Index item) -> std::uint32_t& { return pool[item].position; };
}

}  // namespace

void Completions::add_tier(Index index) {
    times_.push(kUnlimited, index, positions(state_.tiers));
}

void Completions::remove_tier(Index index) {
    times_.remove(state_.tiers[index].position, positions(state_.tiers));
}

double Completions::time_of(const Tier& tier) const {
    if (tier.kinds.empty()) {
        return kUnlimited;
    }
    const double left = tier.kinds.top_key() - tier.passed;
    if (left <= 0) {
        return tier.since;
    }
    return tier.rate > 0 ? tier.since + left / tier.rate : kUnlimited;
}

void Completions::retime(Tier& tier) {
    times_.change(tier.position, time_of(tier), positions(state_.tiers));
}

void Completions::unqueue(Kind& kind) {
    if (std::exchange(kind.queued, false)) {
        state_.tiers[kind.tier].kinds.remove(kind.position, positions(state_.kinds));
    }
}

void Completions::requeue(Kind& kind, Index index) {
    if (kind.members.empty()) {
        unqueue(kind);
        return;
    }
    Tier& tier = state_.tiers[kind.tier];
    const double mark = kind.members.top_key() + kind.offset;
    if (std::exchange(kind.queued, true)) {
        tier.kinds.change(kind.position, mark, positions(state_.kinds));
    } else {
        tier.kinds.push(mark, index, positions(state_.kinds));
    }
}

void Completions::add(Activity& activity, std::uint32_t slot, Index index, double units) {
    Kind& kind = state_.kinds[index];
    activity.kind = index;
    activity.mark = state_.passed(kind) + units;
    kind.members.push(activity.mark, slot, positions(state_.activities));
    changes_.change_kind(index);
}

void Completions::remove(Activity& activity) {
    Kind& kind = state_.kinds[activity.kind];
    kind.members.remove(activity.position, positions(state_.activities));
    changes_.change_kind(activity.kind);
    if (kind.tier != kNone) {
        requeue(kind, activity.kind);
        retime(state_.tiers[kind.tier]);
    }
}

/// All activities that are over by now, in the order in which they began.
void Completions::gather_due() {
    due_.clear();
    reported_ = 0;
    const double moment = state_.queue.now() * (1 + kMoment);
    while (!times_.empty() && times_.top_key() <= moment) {
        const Kind& kind = state_.kinds[state_.tiers[times_.top()].kinds.top()];
        const Index index = kind.members.top();
        Activity& activity = state_.activities[index];
        activity.over = true;
        state_.routes[kind.route].through += activity.work;
        due_.push_back(state_.activities.id_at(index));
        remove(activity);
    }
    std::sort(due_.begin(), due_.end(), [this](ActivityId a, ActivityId b) {
        return state_.activities.find(a)->order < state_.activities.find(b)->order;
    });
}

/// Reports one activity per event, so that what its end causes comes before the next report.
void Completions::report_next() {
    event_ = 0;
    if (reported_ == due_.size()) {
        gather_due();
    }
    while (reported_ < due_.size()) {
        const ActivityId id = due_[reported_++];
        Activity* activity = state_.activities.find(id);
        if (activity == nullptr) {
            continue;  // cancelled when one before it was reported
        }
        const EventQueue::Action done = std::exchange(activity->done, nullptr);
        state_.activities.release(id);
        if (reported_ < due_.size()) {
            event_time_ = state_.queue.now();
            event_ = state_.queue.at(event_time_, [this] { report_next(); });
        }
        if (done) {
            done();
        }
        return;
    }
}

void Completions::schedule() {
    double next = kUnlimited;
    if (!times_.empty()) {
        next = std::max(state_.queue.now(), times_.top_key());
    }
    if (event_ != 0 && event_time_ == next) {
        return;
    }
    state_.queue.cancel(event_);
    event_ = std::isinf(next) ? 0 : state_.queue.at(next, [this] { report_next(); });
    event_time_ = next;
}

}  // namespace cohort::fluid
