#include "session/ring/round_booking.hpp"

#include "cohort/core/error.hpp"

namespace cohort {

void RoundBooking::apply(UpdateEngine& engine, const Round& round) {
    const std::int64_t computed_on = engine.version();
    for (const RoundRider& rider : round.riders) {
        const PushTicket& ticket = *riders_.at(rider.push).ticket;
        engine.leased(rider.push.worker, ticket.lease, ticket.samples);
    }
    for (const RoundMember& member : round.members) {
        begin(engine, member);
    }
    for (const RoundRider& rider : round.riders) {
        feed_.push(riders_.at(rider.push).ticket->lease);
        feed_.carry_out(engine.idle(rider.push.worker));  // no round waits for it
        set_idle(rider.push.worker);
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
