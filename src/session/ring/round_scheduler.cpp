#include "session/ring/round_scheduler.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace cohort {

Round* RoundScheduler::grant(const SyncPlan& plan, std::int64_t applied) {
    if (rounds_.size() >= kGrantedRounds) {
        return nullptr;
    }
    Round next;
    const std::optional<PushId> foreign = foreign_push(plan);
    add_members(next, plan, !foreign);
    if (foreign) {
        add_rider(next, *foreign);
    } else {
        add_riders(next);
    }
    if (next.samples == 0) {
        return nullptr;
    }
    next.number = ++number_;
    next.lr = plan.lr_scale * driver_.learning_rate(applied + samples());
    return &rounds_.emplace_back(std::move(next));
}

void RoundScheduler::add_members(Round& next, const SyncPlan& plan, bool with_leases) {
    for (const int worker : roster_.members()) {
        const RoundLease lease = with_leases ? driver_.claim(worker) : RoundLease();
        next.members.push_back(
            {.worker = worker, .lease = lease.lease, .samples = lease.samples, .riders = {}});
        next.epoch = next.samples == 0 ? lease.epoch : next.epoch;
        next.steps = std::max(next.steps, lease.steps);
        next.work = lease.lease != 0 ? plan.work : next.work;
        next.samples += lease.samples;
    }
}

/// A gradient among deltas (or the other way round) is an update of its own.
std::optional<PushId> RoundScheduler::foreign_push(const SyncPlan& plan) const {
    const std::deque<PushId> ready = riders_.ready();
    const auto found = std::find_if(ready.begin(), ready.end(), [&](const PushId& push) {
        return riders_.at(push).ticket->work != plan.work && driver_.usable(push);
    });
    return found == ready.end() ? std::nullopt : std::optional(*found);
}

/// All that are complete, in order of arrival; when no member has samples one by one, since the
/// engine makes an update of each.
void RoundScheduler::add_riders(Round& next) {
    const bool alone = next.samples == 0;
    const std::deque<PushId> ready = riders_.ready();
    for (const PushId& push : ready) {
        if (driver_.usable(push)) {
            add_rider(next, push);
            if (alone) {
                return;
            }
        }
    }
}

void RoundScheduler::add_rider(Round& next, const PushId& push) {
    const RiderGradient& gradient = riders_.at(push);
    const auto parent = std::find_if(
        next.members.begin(), next.members.end(),
        [&gradient](const RoundMember& member) { return member.worker == *gradient.parent; });
    if (parent != next.members.end()) {  // a virtual one may have left the ring meanwhile
        parent->riders.push_back({.push = push, .samples = gradient.ticket->samples});
    }
    next.epoch = next.samples == 0 ? gradient.epoch : next.epoch;
    next.samples += gradient.ticket->samples;
    next.riders.push_back({.push = push});
    riders_.grant(push);
}

double RoundScheduler::reached(double applied) const {
    return std::accumulate(rounds_.begin(), rounds_.end(), applied,
                           [](double sum, const Round& round) { return sum + round.fraction; });
}

std::int64_t RoundScheduler::samples() const {
    return std::accumulate(
        rounds_.begin(), rounds_.end(), std::int64_t{0},
        [](std::int64_t sum, const Round& round) { return sum + round.samples; });
}

Round RoundScheduler::take_oldest() {
    Round round = std::move(rounds_.front());
    rounds_.pop_front();
    return round;
}

Round RoundScheduler::skip_newest() {
    Round skipped = std::move(rounds_.back());
    rounds_.pop_back();
    riders_.put_back(skipped);
    return skipped;
}

}  // namespace cohort
