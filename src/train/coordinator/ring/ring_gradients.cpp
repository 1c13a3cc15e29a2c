#include "train/coordinator/ring/ring_gradients.hpp"

namespace cohort {

GradientWish RingGradients::wish() const {
    return {.every_update = context_.engine().plan().lr_unit == SyncPlan::LrUnit::kAdaScale &&
                            context_.parts.options.noise_scale == 0,
            .now_and_then = context_.books.wants_gradients()};
}

double RingGradients::noise_scale() const {
    return wish().every_update ? statistics_.noise_scale() : context_.parts.options.noise_scale;
}

GradientQuestion RingGradients::ask(Round& round) {
    const GradientQuestion question =
        statistics_.ask(fire_of(round), context_.engine().plan(), wish());
    round.asked = question.any();
    return question;
}

/// The update that the newest round will be, its pushes riders' first. Members compute on what the
/// rounds before it leave.
Fire RingGradients::fire_of(const Round& round) const {
    const UpdateEngine& engine = context_.engine();
    Fire fire{.version = static_cast<std::int64_t>(round.number),
              .samples = round.samples,
              .fraction = round.fraction,
              .lr_scale = engine.plan().lr_scale,
              .work = round.work,
              .pushes = {},
              .releases = {}};
    for (const RoundRider& rider : round.riders) {
        fire.pushes.push_back(
            {.ticket = *context_.ring.riders.at(rider.push).ticket, .lag = rider.lag});
    }
    const auto before = static_cast<std::int64_t>(context_.ring.rounds.rounds().size()) - 1;
    for (const RoundMember& member : round.members) {
        if (member.lease != 0) {
            fire.pushes.push_back({.ticket = {.version = engine.version() + before,
                                              .samples = member.samples,
                                              .work = fire.work}});
        }
    }
    return fire;
}

void RingGradients::answered(const Round& round, const GradientAnswer& answer,
                             const std::vector<PushTicket>& pushes) {
    if (!round.asked) {
        return;
    }
    std::vector<double> norms;
    for (const PushTicket& push : pushes) {
        norms.push_back(push.gradient_norm);
    }
    statistics_.answered(static_cast<std::int64_t>(round.number), answer, norms);
    report();
}

void RingGradients::withdrawn(const Round& round) {
    statistics_.withdrawn(static_cast<std::int64_t>(round.number), round.samples,
                          context_.engine().plan().lr_scale);
}

bool RingGradients::halve(std::int64_t samples) {
    return statistics_.halve(context_.engine().plan(), samples, wish());
}

void RingGradients::add_halves(const Ticket& ticket) {
    if (ticket.halves) {
        statistics_.halves(ticket.samples, {ticket.first_squares, ticket.second_squares},
                           ticket.gradient_norm * ticket.gradient_norm);
        report();
    }
}

void RingGradients::report() {
    context_.books.measured({.noise_scale = statistics_.noise_scale(),
                             .curvature = statistics_.step_curvature(),
                             .agreement = statistics_.agreement()});
}

}  // namespace cohort
