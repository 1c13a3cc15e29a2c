// Riders: their gradients from ticket and payload to the round that takes them, and the
// parameters that they go on with.
#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "cohort/core/error.hpp"
#include "train/coordinator/ring/flow_ring.hpp"

namespace cohort {

/// A ticket is counted once: of another incarnation its lease has come back already, of a push
/// that was given up it comes back now.
void RingFlow::take_ticket(const Ticket& ticket) {
    const int worker = ticket.push.worker;
    Seat& rider = seat(worker);
    if (books_.stopping() || !rider.live ||
        ticket.push.incarnation != books_.engine().incarnation(worker)) {
        return;
    }
    const std::optional<LeaseOrder> lease = claim(worker);
    if (!lease || lease->lease != ticket.lease) {
        fail<PeerError>({.where = "ring",
                         .what = "a rider does not work on its leases in their order",
                         .expected = std::to_string(lease ? lease->lease : 0),
                         .got = std::to_string(ticket.lease),
                         .hint = "the same program on all ranks"});
    }
    books_.spent(ticket.times.compute_s, ticket.times.exchange_s, 0);
    books_.timed(record_of(ticket, {.bytes = push_bytes(parts_)}, push_bytes(parts_)));
    if (ticket.push.sequence <= rider.settled) {
        give_back(worker, ticket.lease, ReturnReason::kLost);
    } else if (!non_finite_reason(ticket.loss_sum, ticket.finite).empty()) {
        refuse(ticket);
    } else {
        halves(ticket);
        RiderWork& work = work_[ticket.push];
        work.ticket = ticket;
        if (work.parent) {
            ready_.push_back(ticket.push);
        }
    }
}

void RingFlow::take_staged(const Staged& staged) {
    const Seat& rider = seat(staged.push.worker);
    if (!seat(staged.server).live) {
        return;
    }
    if (!rider.live || staged.push.incarnation != books_.engine().incarnation(staged.push.worker) ||
        staged.push.sequence <= rider.settled) {
        discard(staged.server, staged.push);
        return;
    }
    RiderWork& work = work_[staged.push];
    work.parent = staged.server;
    if (work.ticket) {
        ready_.push_back(staged.push);
    }
}

void RingFlow::discard(int parent, const PushId& push) {
    send(parent, MessageKind::kDiscard, DiscardOrder{{push}});
}

/// A gradient that is not finite: its rider goes on with new parameters.
void RingFlow::refuse(const Ticket& ticket) {
    take_off(ticket.push);
    give_back(ticket.push.worker, ticket.lease, ReturnReason::kNonFinite);
    seat(ticket.push.worker).afresh = true;
    seat(ticket.push.worker).begun = std::max(seat(ticket.push.worker).begun, ticket.push.sequence);
    books_.drop({.loss_sum = ticket.loss_sum, .correct = ticket.correct, .samples = ticket.samples},
                fmt::format("worker {}: {}", ticket.push.worker,
                            non_finite_reason(ticket.loss_sum, ticket.finite)));
}

/// The push is settled without being applied: nobody holds it any more.
void RingFlow::take_off(const PushId& push) {
    const auto work = work_.extract(push);
    if (!work.empty() && work.mapped().parent && seat(*work.mapped().parent).live) {
        discard(*work.mapped().parent, push);
    }
    std::erase(ready_, push);
    Seat& rider = seat(push.worker);
    rider.settled = std::max(rider.settled, push.sequence);
}

/// Whether a complete push can be part of the next round.
bool RingFlow::can_go(const PushId& push) const {
    return is_member(*work_.at(push).parent);
}

/// A gradient among deltas (or the other way round) is an update of its own.
std::optional<PushId> RingFlow::foreign_push() const {
    for (const PushId& push : ready_) {
        if (can_go(push) && work_.at(push).ticket->work != books_.engine().plan().work) {
            return push;
        }
    }
    return std::nullopt;
}

/// All that are here, in order of arrival; when no member has samples one by one, since the engine
/// makes an update of each.
void RingFlow::add_riders(Granted& next) {
    const bool alone = next.samples == 0;
    const std::deque<PushId> ready = ready_;
    for (const PushId& push : ready) {
        if (can_go(push)) {
            add_rider(next, push);
            if (alone) {
                return;
            }
        }
    }
}

void RingFlow::add_rider(Granted& next, const PushId& push) {
    RiderWork& work = work_.at(push);
    double ahead = books_.engine().reference_batches();
    for (const Granted& earlier : granted_) {
        ahead += earlier.order.fraction;
    }
    const double lag = ahead - seat(push.worker).reference;
    const auto parent =
        std::find_if(next.order.members.begin(), next.order.members.end(),
                     [&work](const RoundMember& member) { return member.worker == *work.parent; });
    parent->riders.push_back({.push = push,
                              .samples = work.ticket->samples,
                              .lag = books_.engine().plan().look_ahead ? lag : 0});
    next.epoch = next.samples == 0 ? books_.leases().epoch_of(work.ticket->lease) : next.epoch;
    next.samples += work.ticket->samples;
    next.riders.push_back(push);
    work.granted = true;
    std::erase(ready_, push);
}

PushTicket RingFlow::ticket_of(const PushId& push) const {
    const Ticket& ticket = *work_.at(push).ticket;
    return {.id = push,
            .lease = ticket.lease,
            .version = ticket.version,
            .samples = ticket.samples,
            .loss_sum = ticket.loss_sum,
            .gradient_norm = ticket.gradient_norm,
            .work = ticket.work};
}

/// Their parents have sent them the parameters of the round.
void RingFlow::riders_fired(const Granted& granted) {
    for (const PushId& push : granted.riders) {
        Seat& rider = seat(push.worker);
        rider.giver = *work_.at(push).parent;
        rider.fired_in = granted.order.round;
        work_.erase(push);
        rider.settled = std::max(rider.settled, push.sequence);
        rider.reference = books_.engine().reference_batches();
    }
}

/// A round that is not applied: the parents still hold these, they go with the next one.
void RingFlow::put_back(const Granted& granted) {
    for (const PushId& push : std::views::reverse(granted.riders)) {
        work_.at(push).granted = false;
        ready_.push_front(push);
    }
    for (const PushId& push : granted.riders) {
        if (!seat(push.worker).live) {
            forget_pushes(push.worker);
        }
    }
}

/// Pushes of a worker that are not in a round.
void RingFlow::forget_pushes(int worker) {
    std::vector<PushId> pushes;
    for (const auto& [push, work] : work_) {
        if (push.worker == worker && !work.granted) {
            pushes.push_back(push);
        }
    }
    for (const PushId& push : pushes) {
        const std::optional<Ticket> ticket = work_.at(push).ticket;
        take_off(push);
        if (ticket) {
            give_back(worker, ticket->lease, ReturnReason::kLost);
        }
    }
}

/// What a rider had begun when it lost its parent is void unless a member holds it: who has left
/// the ring, and says only now that it got it, takes part in no round.
void RingFlow::void_begun(int worker) {
    Seat& rider = seat(worker);
    const PushId last{.worker = worker,
                      .incarnation = books_.engine().incarnation(worker),
                      .sequence = rider.begun};
    const auto work = work_.find(last);
    const bool held = work != work_.end() && work->second.parent && work->second.ticket &&
                      is_member(*work->second.parent);
    if (held) {
        rider.afresh = false;  // the round that takes it brings parameters
        rider.giver = *work->second.parent;
        return;
    }
    if (work != work_.end() && work->second.ticket) {
        give_back(worker, work->second.ticket->lease, ReturnReason::kLost);
    }
    take_off(last);
}

void RingFlow::role_taken(const RoleTaken& taken) {
    if (recovery_) {
        std::erase(recovery_->bringing, taken.number);
    }
    Seat& worker = seat(taken.worker);
    if (taken.number != worker.order || !worker.live) {
        return;  // overtaken by a newer order
    }
    worker.taken = true;
    worker.begun = taken.sequence;
    if (worker.afresh) {
        void_begun(taken.worker);
    }
    if (recovery_ && recovery_->bringing.empty() && all_answered()) {
        end_recovery();
    }
}

std::uint64_t RingFlow::give_role(int worker, RoleOrder order) {
    Seat& to = seat(worker);
    order.epoch = epoch_;
    order.number = ++orders_;
    to.order = order.number;
    if (order.await_state) {
        to.giver = order.giver;
    } else if (order.afresh || to.role == RingRole::kMember) {
        to.giver = order.parent;
    }
    to.role = order.role;
    to.parent_before = to.parent;
    to.parent = order.parent;
    to.taken = false;
    send(worker, RingMessageKind::kRole, order);
    return order.number;
}

/// To riders that cannot get theirs from a round.
void RingFlow::send_parameters() {
    for (std::size_t worker = 0; worker < seats_.size(); ++worker) {
        Seat& rider = seats_[worker];
        if (!rider.afresh || !rider.taken || !rider.live || rider.role != RingRole::kRider) {
            continue;
        }
        const int giver = is_member(rider.parent) ? rider.parent : members_.front();
        const auto index = static_cast<int>(worker);
        send(giver, RingMessageKind::kSendState,
             SendStateOrder{.epoch = epoch_,
                            .worker = index,
                            .after = rider.begun,
                            .incarnation = books_.engine().incarnation(index)});
        rider.afresh = false;
        rider.giver = giver;
        rider.reference = books_.engine().reference_batches();
        for (const Granted& earlier : granted_) {
            rider.reference += earlier.order.fraction;
        }
    }
}

int RingFlow::choose_parent(int rider, const std::vector<int>& members) const {
    return cohort::choose_parent(rider, members, ring_seats());
}

std::vector<RingSeat> RingFlow::ring_seats() const {
    std::vector<RingSeat> seats;
    seats.reserve(seats_.size());
    for (const Seat& seat : seats_) {
        const int rank = links_.map.rank_of_worker(static_cast<int>(seats.size()));
        seats.push_back({.role = seat.role,
                         .parent = seat.parent,
                         .node = links_.map.ranks[static_cast<std::size_t>(rank)].node,
                         .live = seat.live});
    }
    return seats;
}

}  // namespace cohort
