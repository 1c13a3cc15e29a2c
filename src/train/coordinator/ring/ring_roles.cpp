#include "train/coordinator/ring/ring_roles.hpp"

#include <algorithm>

namespace cohort {

std::uint64_t RingRoles::give(int worker, RoleOrder order) {
    const RingSeat before = context_.ring.roster.seat(worker);
    order.epoch = context_.epoch;
    order.number = ++orders_;
    at(worker).order = order.number;
    at(worker).parent_before = before.parent;
    if (order.await_state) {
        at(worker).giver = order.giver;
    } else if (order.afresh || before.role == RingRole::kMember) {
        at(worker).giver = order.parent;
    }
    context_.ring.roster.assign(worker, order.role, order.parent);
    context_.ring.riders.give_role(worker);
    context_.send(worker, RingMessageKind::kRole, order);
    return order.number;
}

std::uint64_t RingRoles::bring(int worker, int giver) {
    const std::uint64_t number =
        give(worker, {.role = RingRole::kMember, .await_state = true, .giver = giver});
    cancel_request(worker);
    context_.send(
        giver, RingMessageKind::kSendState,
        SendStateOrder{.epoch = context_.epoch, .number = number, .worker = worker, .full = true});
    return number;
}

void RingRoles::move(int worker, RingRole role, int parent) {
    if (context_.ring.roster.seat(worker).role == RingRole::kMember) {
        at(worker).reference = context_.engine().reference_batches();
    }
    give(worker, {.role = role, .parent = parent});
}

void RingRoles::rejoin(int worker) {
    RingRoster& roster = context_.ring.roster;
    roster.join(worker);
    context_.ring.riders.reset(worker);
    at(worker) = {.requested = true, .reference = context_.engine().reference_batches()};
    context_.books.leases().set_live(worker, true);
    context_.send(worker, MessageKind::kJoin,
                  JoinOrder{.incarnation = context_.engine().incarnation(worker),
                            .version = context_.engine().version(),
                            .leases_up_to = context_.books.leases().newest()});
    give(worker,
         {.role = RingRole::kRider, .parent = roster.choose_parent(worker), .afresh = true});
}

bool RingRoles::awaits_state_of(int worker) const {
    const auto& members = context_.ring.roster.members();
    return std::any_of(members.begin(), members.end(), [&](int member) {
        return !context_.ring.riders.has_taken_role(member) && giver(member) == worker;
    });
}

void RingRoles::send_parameters() {
    const RingRoster& roster = context_.ring.roster;
    for (int rider = 0; rider < roster.workers(); ++rider) {
        const RingSeat& seat = roster.seat(rider);
        if (!requested(rider) || !seat.live || seat.role != RingRole::kRider ||
            !context_.ring.riders.has_taken_role(rider)) {
            continue;
        }
        const int giver = roster.is_member(seat.parent) ? seat.parent : roster.members().front();
        context_.send(giver, RingMessageKind::kSendState,
                      SendStateOrder{.epoch = context_.epoch,
                                     .worker = rider,
                                     .after = context_.ring.riders.begun(rider),
                                     .incarnation = context_.engine().incarnation(rider)});
        at(rider).giver = giver;
        at(rider).requested = false;
        at(rider).reference = context_.ring.rounds.reached(context_.engine().reference_batches());
    }
}

void RingRoles::await_round(int rider, int parent) {
    at(rider).requested = false;
    at(rider).giver = parent;
}

void RingRoles::sent_in_round(int rider, int parent, std::uint64_t round) {
    at(rider).giver = parent;
    at(rider).round = round;
    at(rider).reference = context_.engine().reference_batches();
}

bool RingRoles::missed(int rider, std::uint64_t round, const std::vector<int>& completed) {
    Worker& one = at(rider);
    if (round == 0 || one.round != round ||
        std::find(completed.begin(), completed.end(), one.giver) != completed.end()) {
        return false;
    }
    one.round = 0;
    one.requested = true;
    return true;
}

}  // namespace cohort
