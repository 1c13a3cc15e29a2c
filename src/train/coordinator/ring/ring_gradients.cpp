#include "train/coordinator/ring/ring_gradients.hpp"

namespace cohort {

double RingGradients::noise_scale() const {
    const GradientMeasurement& gradients = context_.session().gradients();
    return gradients.policy().every_update ? gradients.statistics().noise_scale()
                                           : context_.parts.options.noise_scale;
}

bool RingGradients::ask(Round& round) {
    round.asked = context_.session().gradients().ask(fire_of(round));
    return round.asked;
}

/// The update that the newest round will be, as far as it is known: its pushes, riders' first.
/// Members compute on what the rounds before it leave.
Fire RingGradients::fire_of(const Round& round) const {
    const UpdateEngine& engine = context_.engine();
    Fire fire{.version = static_cast<std::int64_t>(round.number),
              .work = round.work,
              .pushes = {},
              .releases = {}};
    for (const PushId& rider : round.riders) {
        fire.pushes.push_back({.ticket = *context_.ring.riders.at(rider).ticket});
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

void RingGradients::answered(const Round& round, double squares,
                             const std::vector<PushTicket>& pushes) {
    if (!round.asked) {
        return;
    }
    std::vector<double> norms;
    for (const PushTicket& push : pushes) {
        norms.push_back(push.gradient_norm);
    }
    context_.session().gradients().answered(static_cast<std::int64_t>(round.number), squares,
                                            norms);
}

void RingGradients::withdrawn(const Round& round) {
    context_.session().gradients().withdrawn(static_cast<std::int64_t>(round.number));
}

bool RingGradients::halve(std::int64_t samples) {
    return context_.session().gradients().halve(samples);
}

void RingGradients::add_halves(const PushReport& report) {
    if (report.halves) {
        context_.session().gradients().halves(report.ticket.samples,
                                              {report.first_squares, report.second_squares},
                                              report.ticket.gradient_norm);
    }
}

}  // namespace cohort
