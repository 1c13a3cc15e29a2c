#include "sched/session/effect_interpreter.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

#include "cohort/core/error.hpp"
#include "cohort/optim/learning_options.hpp"
#include "sched/engine/fire_sum.hpp"

namespace cohort {

void EffectInterpreter::push(const PushTicket& ticket) {
    held_[ticket.id] = ticket;
    session_.leases().open().pushed(ticket.lease);
    carry_out(session_.engine().push(ticket));
}

void EffectInterpreter::watch(const Effect& effect, bool held) const {
    if (watch_) {
        watch_(effect, held);
    }
}

void EffectInterpreter::carry_out(const std::vector<Effect>& effects) {
    for (std::size_t i = 0; i < effects.size(); ++i) {
        const Effect& effect = effects[i];
        if (SessionObserver* const observer = session_.options().observer) {
            observer->decided(effect);
        }
        if (const auto* stopped = std::get_if<Interrupt>(&effect)) {
            interrupt(effect, *stopped, lease_given_up(effects, i));
        } else if (const auto* fire = std::get_if<Fire>(&effect)) {
            update(effect, *fire);
        } else if (const auto* release = std::get_if<ReleaseOne>(&effect)) {
            watch(effect);
            handler_.release(*release);
        } else if (const auto* refusal = std::get_if<Refuse>(&effect)) {
            refuse(effect, *refusal);
        } else {
            const auto& lease = std::get<ReturnLease>(effect);
            watch(effect);
            handler_.returned(lease);
            session_.leases().open().returned(lease.lease, lease.reason);
        }
    }
}

void EffectInterpreter::update(const Effect& effect, const Fire& fire) {
    const UpdateOrder order = order_of(fire);
    watch(effect);
    handler_.apply(order, fire);
    session_.updated(fire);
    handler_.applied(order, fire);
}

std::vector<double> EffectInterpreter::coefficients(const Fire& fire) const {
    if (session_.options().only_samples_weigh) {
        std::vector<double> shares;
        for (const FiredPush& push : fire.pushes) {
            shares.push_back(static_cast<double>(push.ticket.samples) /
                             static_cast<double>(fire.samples));
        }
        return shares;
    }
    std::vector<std::int32_t> steps;
    for (std::size_t i = 0; i < fire.pushes.size() && fire.work == Work::kDelta; ++i) {
        const LeaseOrder* lease = session_.leases().open().find(fire.pushes[i].ticket.lease);
        steps.push_back(lease == nullptr ? 1 : lease->work.steps);
    }
    std::vector<double> weights = sum_coefficients(fire, steps, session_.options().reference_batch);
    for (std::size_t i = 0; i < weights.size() && fire.work == Work::kGradient; ++i) {
        weights[i] *=
            clip_factor(session_.options().clip_norm, fire.pushes[i].ticket.gradient_norm);
    }
    return weights;
}

UpdateOrder EffectInterpreter::order_of(const Fire& fire) {
    UpdateOrder update{.version = fire.version,
                       .fraction = fire.fraction,
                       .learning_rate = session_.learning_rate(fire.lr_scale),
                       .work = fire.work,
                       .delay_compensation = session_.engine().plan().delay_compensation};
    OpenLeases& leases = session_.leases().open();
    const std::vector<double> weights = coefficients(fire);
    std::vector<std::size_t> in_order(fire.pushes.size());
    std::iota(in_order.begin(), in_order.end(), 0);
    std::sort(in_order.begin(), in_order.end(), [&fire](std::size_t a, std::size_t b) {
        return fire.pushes[a].ticket.lease < fire.pushes[b].ticket.lease;
    });
    update.terms.reserve(in_order.size());
    for (const std::size_t i : in_order) {
        const PushTicket& ticket = fire.pushes[i].ticket;
        const LeaseOrder* const lease = leases.find(ticket.lease);
        const bool held = held_.erase(ticket.id) == 1;
        check_invariant(held && lease != nullptr, "a push that fires was held and has its lease");
        if (update.terms.empty()) {
            update.epoch = lease->epoch;
        }
        update.terms.push_back({.push = ticket.id,
                                .lease = ticket.lease,
                                .coefficient = weights[i],
                                .version = ticket.version});
        update.samples += ticket.samples;
        update.loss_sum += ticket.loss_sum;
        update.correct += ticket.correct;
        update.gradient_norm += ticket.gradient_norm / static_cast<double>(in_order.size());
        leases.applied(ticket.lease);
    }
    update.ask_norm = session_.gradients().ask(fire);
    return update;
}

void EffectInterpreter::refuse(const Effect& effect, const Refuse& refusal) {
    const auto held = held_.extract(refusal.push);
    check_invariant(!held.empty(), "a refused push was held");
    const PushTicket& ticket = held.mapped();
    const bool out = session_.leases().open().find(ticket.lease) != nullptr;
    if (out) {  // else it returned before, and was counted then
        session_.settled({.worker = ticket.id.worker,
                          .samples = ticket.samples,
                          .lag = refusal.lag,
                          .lag_updates = session_.engine().version() - ticket.version,
                          .weight = 0,
                          .returned = refusal.reason});
    }
    handler_.refuse(refusal, ticket, out);
    watch(effect, out);
    if (out && refusal.reason == ReturnReason::kNonFinite) {
        session_.dropped();
        handler_.dropped(ticket);
    }
}

void EffectInterpreter::interrupt(const Effect& effect, const Interrupt& interrupt,
                                  const ReturnLease* lease) {
    if (lease != nullptr) {
        session_.settled({.worker = interrupt.worker,
                          .samples = lease->samples,
                          .lag = interrupt.behind,
                          .weight = 0,
                          .returned = ReturnReason::kInterrupted});
    }
    watch(effect);
    handler_.interrupt(interrupt, lease);
}

}  // namespace cohort
