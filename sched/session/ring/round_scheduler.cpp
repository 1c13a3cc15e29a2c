#include "sched/session/ring/round_scheduler.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cohort/core/error.hpp"

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
    next.riders.push_back(push);
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

void RoundBooking::apply(UpdateEngine& engine, const Round& round) {
    const std::int64_t computed_on = engine.version();
    for (const PushId& rider : round.riders) {
        const PushTicket& ticket = *riders_.at(rider).ticket;
        engine.leased(rider.worker, ticket.lease, ticket.samples);
    }
    for (const RoundMember& member : round.members) {
        begin(engine, member);
    }
    for (const PushId& rider : round.riders) {
        feed_.push(riders_.at(rider).ticket->lease);
        feed_.carry_out(engine.idle(rider.worker));  // no round waits for it
        set_idle(rider.worker);
    }
    for (const RoundMember& member : round.members) {
        if (member.lease != 0) {
            feed_.push(member.lease);
        }
    }
    check_invariant(engine.version() == computed_on + 1 && engine.pending() == 0,
                    "a round is one update");
}

void RoundBooking::abort(UpdateEngine& engine, const Round& round,
                         std::span<const ReturnReason> reasons) {
    for (std::size_t i = 0; i < round.members.size(); ++i) {
        const RoundMember& member = round.members[i];
        begin(engine, member);
        if (member.lease != 0) {
            feed_.carry_out(engine.take_back(member.worker, reasons[i]));
        }
    }
}

void RoundBooking::refuse(UpdateEngine& engine, const PushTicket& ticket) {
    const int rider = ticket.id.worker;
    engine.leased(rider, ticket.lease, ticket.samples);
    feed_.carry_out(engine.take_back(rider, ReturnReason::kNonFinite));
    feed_.carry_out(engine.idle(rider));
    set_idle(rider);
}

/// Whether a member takes part with samples, or only passes on.
void RoundBooking::begin(UpdateEngine& engine, const RoundMember& member) {
    const auto index = static_cast<std::size_t>(member.worker);
    const bool idle = member.lease == 0;
    if (idle != idle_.at(index)) {
        feed_.carry_out(idle ? engine.idle(member.worker) : engine.resumed(member.worker));
    }
    idle_[index] = idle;
    if (!idle) {
        engine.leased(member.worker, member.lease, member.samples);
    }
}

}  // namespace cohort
