#include "train/coordinator/ring/ring_riders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "cohort/core/error.hpp"

namespace cohort {

/// A report is counted once: the lease of another incarnation has come back already, that of a push
/// that was given up comes back now.
void RingRiders::take_report(const PushReport& report) {
    const PushTicket& ticket = report.ticket;
    const int worker = ticket.id.worker;
    if (context_.session().stopping() || !context_.ring.roster.seat(worker).live ||
        ticket.id.incarnation != context_.engine().incarnation(worker)) {
        return;
    }
    const std::optional<LeaseOrder> lease = leases_.claim(worker);
    if (!lease || lease->lease != ticket.lease) {
        fail<PeerError>({.where = "ring",
                         .what = "a rider does not work on its leases in their order",
                         .expected = std::to_string(lease ? lease->lease : 0),
                         .got = std::to_string(ticket.lease),
                         .hint = "the same program on all ranks"});
    }
    roles_.at(worker).version = ticket.version;
    roles_.at(worker).apart = false;
    const double bytes = push_bytes(context_.parts);
    context_.observer.spent(report.times.compute_s, report.times.exchange_s, 0);
    context_.observer.timed(record_of(report, {.bytes = bytes}, bytes));
    if (context_.ring.riders.settled(ticket.id)) {
        leases_.give_back(worker, ticket.lease, ReturnReason::kLost);
    } else if (!non_finite_reason(ticket.loss_sum, ticket.finite).empty()) {
        refuse(ticket, *lease);
    } else {
        gradients_.add_halves(report);
        context_.ring.riders.add_ticket(ticket, lease->epoch);
    }
}

void RingRiders::take_staged(const PushReceived& staged) {
    const RingRoster& roster = context_.ring.roster;
    const int rider = staged.push.worker;
    if (!roster.seat(staged.server).live) {
        return;
    }
    if (!roster.seat(rider).live ||
        staged.push.incarnation != context_.engine().incarnation(rider) ||
        context_.ring.riders.settled(staged.push)) {
        discard(staged.server, staged.push);
    } else {
        context_.ring.riders.add_gradient(staged.push, staged.server);
    }
}

/// A gradient that is not finite: its rider goes on with new parameters.
void RingRiders::refuse(const PushTicket& ticket, const LeaseOrder& lease) {
    const int worker = ticket.id.worker;
    drop(ticket.id);
    leases_.give_back(worker, ticket.lease, ReturnReason::kNonFinite);
    roles_.at(worker).requested = true;
    RiderProgress& progress = context_.ring.riders.progress(worker);
    progress.begun = std::max(progress.begun, ticket.id.sequence);
    context_.session().dropped();
    context_.observer.drop(
        {.result = {.loss_sum = ticket.loss_sum,
                    .correct = ticket.correct,
                    .samples = ticket.samples},
         .because = fmt::format("worker {}: {}", worker,
                                non_finite_reason(ticket.loss_sum, ticket.finite)),
         .leases = {slice_of(lease)}});
}

/// The push is not applied: nobody holds it any more.
void RingRiders::drop(const PushId& push) {
    const RiderGradient dropped = context_.ring.riders.settle(push);
    if (dropped.parent && context_.ring.roster.seat(*dropped.parent).live) {
        discard(*dropped.parent, push);
    }
    if (dropped.ticket) {
        leases_.give_back(push.worker, dropped.ticket->lease, ReturnReason::kLost);
    }
}

void RingRiders::discard(int parent, const PushId& push) const {
    context_.send(parent, MessageKind::kDiscard, DiscardOrder{{push}});
}

void RingRiders::applied(const Round& round) {
    for (const PushId& rider : round.riders) {
        const RiderGradient gradient = context_.ring.riders.settle(rider);
        WorkerRole& role = roles_.at(rider.worker);
        role.giver = *gradient.parent;
        role.round = round.number;
        role.reference = context_.engine().reference_batches();
    }
}

void RingRiders::lost(int worker) {
    roles_.at(worker).requested = false;
    context_.ring.riders.progress(worker).flush = false;
    forget(worker);
}

/// Pushes of a lost worker that are not in a round.
void RingRiders::forget(int worker) {
    for (const PushId& push : context_.ring.riders.pushes_of(worker)) {
        if (!context_.ring.riders.at(push).granted) {
            drop(push);
        }
    }
}

/// The successor is no rider any more: its earlier pushes are part of no round.
void RingRiders::succeeds(int worker) {
    forget(worker);
    roles_.at(worker).requested = false;
    RiderProgress& progress = context_.ring.riders.progress(worker);
    progress.flush = false;
    progress.settled = std::max(progress.settled, progress.begun);
}

std::int64_t RingRiders::oldest_version() const {
    std::int64_t oldest = context_.engine().version();
    for (int worker = 0; worker < context_.ring.roster.workers(); ++worker) {
        const RingSeat& seat = context_.ring.roster.seat(worker);
        if (seat.live && seat.role != RingRole::kMember) {
            oldest = std::min(oldest, roles_.at(worker).version);
        }
    }
    return oldest;
}

void RingRiders::forget_lost(const Round& round) {
    for (const PushId& rider : round.riders) {
        if (!context_.ring.roster.seat(rider.worker).live) {
            forget(rider.worker);
        }
    }
}

void RingRiders::role_taken(const RoleTaken& taken) {
    RiderProgress& progress = context_.ring.riders.progress(taken.worker);
    progress.taken = true;
    progress.begun = taken.sequence;
    if (roles_.at(taken.worker).requested) {
        drop_begun(taken.worker);
    }
}

/// What a rider had begun when it lost its parent is void unless a member holds it: a worker that
/// has left the ring, and says only now that it received it, takes part in no round.
void RingRiders::drop_begun(int rider) {
    const PushId last{.worker = rider,
                      .incarnation = context_.engine().incarnation(rider),
                      .sequence = context_.ring.riders.progress(rider).begun};
    const RiderGradient* const gradient = context_.ring.riders.find(last);
    if (gradient != nullptr && gradient->ticket && gradient->parent && !is_stranded(last)) {
        roles_.at(rider).requested = false;  // the round that takes it brings parameters
        roles_.at(rider).giver = *gradient->parent;
    } else if (gradient == nullptr || !gradient->granted) {  // else its round decides
        drop(last);
    }
}

void RingRiders::adopt() {
    const RingRoster& roster = context_.ring.roster;
    RiderTracker& riders = context_.ring.riders;
    for (int worker = 0; worker < roster.workers(); ++worker) {
        const RingSeat seat = roster.seat(worker);
        if (!seat.live || seat.role == RingRole::kMember) {
            continue;
        }
        WorkerRole& role = roles_.at(worker);
        std::vector<PushId> gone = riders.pushes_of(worker);
        std::erase_if(gone, [this](const PushId& push) { return !is_stranded(push); });
        const bool underway =
            riders.progress(worker).flush && !roster.is_member(role.parent_before);
        const bool orphan = roster.is_orphan(worker);
        if (gone.empty() && !underway && !orphan && roster.seat(role.giver).live) {
            continue;
        }
        begin_anew(worker, seat.role, orphan ? roster.choose_parent(worker) : seat.parent, gone);
    }
}

void RingRiders::all_ride_with(int successor) {
    const RingRoster& roster = context_.ring.roster;
    for (int worker = 0; worker < roster.workers(); ++worker) {
        if (worker != successor && roster.seat(worker).live) {
            context_.ring.riders.progress(worker).flush = false;
            begin_anew(worker, RingRole::kRider, successor, context_.ring.riders.pushes_of(worker));
        }
    }
}

void RingRiders::ask_again() {
    for (int worker = 0; worker < context_.ring.roster.workers(); ++worker) {
        WorkerRole& role = roles_.at(worker);
        role.requested = role.requested || role.apart;
    }
}

void RingRiders::begin_anew(int worker, RingRole role, int parent,
                            const std::vector<PushId>& gone) {
    for (const PushId& push : gone) {
        drop(push);
    }
    roles_.at(worker).requested = true;
    roles_.give(worker, {.role = role, .parent = parent, .afresh = true});
}

bool RingRiders::is_stranded(const PushId& push) const {
    const std::optional<int> parent = context_.ring.riders.at(push).parent;
    return parent && !context_.ring.roster.is_member(*parent);
}

void RingRiders::replace_missed(std::uint64_t round, const std::vector<int>& completed) {
    const RingRoster& roster = context_.ring.roster;
    for (int worker = 0; worker < roster.workers(); ++worker) {
        WorkerRole& role = roles_.at(worker);
        const bool sent =
            std::find(completed.begin(), completed.end(), role.giver) != completed.end();
        if (!roster.seat(worker).live || round == 0 || role.round != round || sent) {
            continue;
        }
        RiderProgress& progress = context_.ring.riders.progress(worker);
        role.round = 0;
        role.requested = true;
        progress.begun = std::max(progress.begun, progress.settled);
        if (roster.seat(role.giver).live) {
            discard(role.giver, {.worker = worker,
                                 .incarnation = context_.engine().incarnation(worker),
                                 .sequence = progress.settled});
        }
    }
}

}  // namespace cohort
