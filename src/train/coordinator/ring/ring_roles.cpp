#include "train/coordinator/ring/ring_roles.hpp"

#include <algorithm>

namespace cohort {

std::uint64_t RingRoles::give(int worker, RoleOrder order) {
    const RingSeat before = context_.ring.roster.seat(worker);
    order.epoch = context_.epoch;
    order.number = ++orders_;
    at(worker).order = order.number;
    at(worker).parent_before = before.parent;
    at(worker).apart = false;
    if (order.await_state) {
        at(worker).giver = order.giver;
    } else if (order.afresh || before.role == RingRole::kMember) {
        at(worker).giver = order.parent;
    }
    context_.ring.roster.assign(worker, order.role, order.parent);
    context_.ring.riders.progress(worker).taken = false;
    context_.send(worker, RingMessageKind::kRole, order);
    return order.number;
}

std::uint64_t RingRoles::bring(int worker, int giver) {
    const std::uint64_t number =
        give(worker, {.role = RingRole::kMember, .await_state = true, .giver = giver});
    at(worker).requested = false;
    context_.send(
        giver, RingMessageKind::kSendState,
        SendStateOrder{.epoch = context_.epoch, .number = number, .worker = worker, .full = true});
    return number;
}

std::uint64_t RingRoles::succeed(int worker, int giver, std::uint64_t round) {
    const std::uint64_t number = give(worker, {.role = RingRole::kMember,
                                               .await_state = giver != worker,
                                               .giver = giver,
                                               .successor = true,
                                               .version = context_.engine().version(),
                                               .round = round});
    context_.ring.roster.appoint(worker);
    at(worker).requested = false;
    if (giver != worker) {
        context_.send(
            giver, RingMessageKind::kSendState,
            SendStateOrder{
                .epoch = context_.epoch, .number = number, .worker = worker, .full = true});
    }
    return number;
}

void RingRoles::move(int worker, RingRole role, int parent) {
    if (context_.ring.roster.seat(worker).role == RingRole::kMember) {
        at(worker).reference = context_.engine().reference_batches();
        at(worker).version = context_.engine().version();
    }
    give(worker, {.role = role, .parent = parent});
}

void RingRoles::rejoin(int worker) {
    RingRoster& roster = context_.ring.roster;
    roster.join(worker);
    context_.ring.riders.progress(worker) = {};
    at(worker) = {.requested = true,
                  .reference = context_.engine().reference_batches(),
                  .version = context_.engine().version()};
    context_.leases().set_live(worker, true);
    context_.send(worker, MessageKind::kJoin,
                  JoinOrder{.incarnation = context_.engine().incarnation(worker),
                            .version = context_.engine().version(),
                            .leases_up_to = context_.leases().open().newest()});
    give(worker,
         {.role = RingRole::kRider, .parent = roster.choose_parent(worker), .afresh = true});
}

bool RingRoles::awaits_state_of(int worker) const {
    const auto& members = context_.ring.roster.members();
    return std::any_of(members.begin(), members.end(), [&](int member) {
        return !context_.ring.riders.progress(member).taken && at(member).giver == worker;
    });
}

void RingRoles::send_parameters() {
    const RingRoster& roster = context_.ring.roster;
    for (int rider = 0; rider < roster.workers(); ++rider) {
        const RingSeat& seat = roster.seat(rider);
        const RiderProgress& progress = context_.ring.riders.progress(rider);
        WorkerRole& one = at(rider);
        if (!one.requested || !seat.live || seat.role != RingRole::kRider || !progress.taken) {
            continue;
        }
        const int giver = roster.is_member(seat.parent) ? seat.parent : roster.members().front();
        context_.send(giver, RingMessageKind::kSendState,
                      SendStateOrder{.epoch = context_.epoch,
                                     .worker = rider,
                                     .after = progress.begun,
                                     .incarnation = context_.engine().incarnation(rider)});
        one.giver = giver;
        one.requested = false;
        one.apart = true;
        one.reference = context_.ring.rounds.reached(context_.engine().reference_batches());
    }
}

}  // namespace cohort
