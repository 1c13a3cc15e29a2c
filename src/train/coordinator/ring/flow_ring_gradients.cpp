// What rounds and riders tell of the gradient. A round is asked about when it is granted: who takes
// part with how many samples is known then, norms come with the tails. Every member holds the mean
// gradient, so the reporter answers for all, and nothing more is sent.
#include "train/coordinator/ring/flow_ring.hpp"

namespace cohort {

GradientWish RingFlow::wish() const {
    return {.every_update = books_.engine().plan().lr_unit == SyncPlan::LrUnit::kAdaScale &&
                            parts_.options.noise_scale == 0,
            .now_and_then = books_.wants_gradients()};
}

/// For the size of updates; 0: not known.
double RingFlow::noise_scale() const {
    return wish().every_update ? gradients_.noise_scale() : parts_.options.noise_scale;
}

/// The update that the round will be, its pushes in the order of tickets_of(). Members compute on
/// what the rounds before it leave.
Fire RingFlow::fire_of(const Granted& next) const {
    const UpdateEngine& engine = books_.engine();
    const std::int64_t version = engine.version() + static_cast<std::int64_t>(granted_.size());
    double reached = engine.reference_batches();
    for (const Granted& earlier : granted_) {
        reached += earlier.order.fraction;
    }
    Fire fire{.version = static_cast<std::int64_t>(next.order.round),
              .samples = next.samples,
              .fraction = next.order.fraction,
              .lr_scale = engine.plan().lr_scale,
              .work = next.order.work,
              .pushes = {},
              .releases = {}};
    for (const PushId& push : next.riders) {
        const double lag = reached - seats_[static_cast<std::size_t>(push.worker)].reference;
        fire.pushes.push_back({.ticket = ticket_of(push), .lag = lag});
    }
    for (const RoundMember& member : next.order.members) {
        if (member.lease != 0) {
            fire.pushes.push_back(
                {.ticket = {.version = version, .samples = member.samples, .work = fire.work}});
        }
    }
    return fire;
}

void RingFlow::answered(const Granted& granted, const RoundReport& report,
                        const std::vector<PushTicket>& tickets) {
    if (!granted.order.question.any()) {
        return;
    }
    std::vector<double> norms;
    for (const PushTicket& ticket : tickets) {
        norms.push_back(ticket.gradient_norm);
    }
    gradients_.answered(static_cast<std::int64_t>(granted.order.round), report.answer, norms);
    learned_of_gradients();
}

void RingFlow::withdrawn(const Granted& granted) {
    gradients_.withdrawn(static_cast<std::int64_t>(granted.order.round), granted.samples,
                         books_.engine().plan().lr_scale);
}

void RingFlow::halves(const Ticket& ticket) {
    if (ticket.halves) {
        gradients_.halves(ticket.samples, {ticket.first_squares, ticket.second_squares},
                          ticket.gradient_norm * ticket.gradient_norm);
        learned_of_gradients();
    }
}

void RingFlow::learned_of_gradients() {
    books_.measured({.noise_scale = gradients_.noise_scale(),
                     .curvature = gradients_.step_curvature(),
                     .agreement = gradients_.agreement()});
}

}  // namespace cohort
