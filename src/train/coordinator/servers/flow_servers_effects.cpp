#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <variant>

#include "cohort/core/error.hpp"
#include "train/coordinator/servers/flow_servers.hpp"

// What the engine decides, carried out: orders to servers and workers, entries in the books.
namespace cohort {

void ServersFlow::carry_out(const Effects& effects) {
    for (std::size_t i = 0; i < effects.size(); ++i) {
        if (const auto* stopped = std::get_if<Interrupt>(&effects[i])) {
            interrupt(*stopped, lease_given_up(effects, i));
            continue;
        }
        std::visit(
            [this](const auto& effect) {
                if constexpr (!std::is_same_v<std::decay_t<decltype(effect)>, Interrupt>) {
                    carry_out(effect);
                }
            },
            effects[i]);
    }
}

ReleaseOrder ServersFlow::release(int worker, double lag, const EvaluationOrder& evaluation) {
    released_[at(worker)] = true;
    running_[at(worker)] = false;  // whatever it did, it begins anew
    return {.worker = worker,
            .lag = lag,
            .evaluation = evaluation,
            .incarnation = books_.engine().incarnation(worker)};
}

/// Its pushes, in the order of leases, not of arrival: the same bits whatever the timing.
void ServersFlow::sum_up(const Fire& fire, FireOrder& order, UpdateRecord& update) {
    const std::vector<double> weights = coefficients(fire);
    std::vector<std::size_t> in_order(fire.pushes.size());
    std::iota(in_order.begin(), in_order.end(), 0);
    std::sort(in_order.begin(), in_order.end(), [&fire](std::size_t a, std::size_t b) {
        return fire.pushes[a].ticket.lease < fire.pushes[b].ticket.lease;
    });
    update.epoch = books_.leases().epoch_of(fire.pushes[in_order.front()].ticket.lease);
    for (const std::size_t i : in_order) {
        const FiredPush& push = fire.pushes[i];
        const auto held = held_.extract(push.ticket.id);
        check_invariant(!held.empty(), "a fired push is staged");
        order.pushes.push_back(
            {.push = push.ticket.id, .coefficient = weights[i], .version = push.ticket.version});
        update.leases.push_back(push.ticket.lease);
        update.result.samples += push.ticket.samples;
        update.result.loss_sum += push.ticket.loss_sum;
        update.result.correct += held.mapped().correct;
        update.gradient_norm += push.ticket.gradient_norm / static_cast<double>(in_order.size());
    }
}

/// @param scale  of the plan
double ServersFlow::learning_rate(double scale) const {
    return scale * parts_.schedule.lr(parts_.options.lr, books_.samples_applied());
}

void ServersFlow::carry_out(const Fire& fire) {
    UpdateRecord update{.version = fire.version,
                        .fraction = fire.fraction,
                        .learning_rate = learning_rate(fire.lr_scale)};
    FireOrder order{.version = fire.version,
                    .fraction = fire.fraction,
                    .lr = update.learning_rate,
                    .work = fire.work,
                    .delay_compensation = books_.engine().plan().delay_compensation};
    sum_up(fire, order, update);
    order.question = gradients_.ask(fire, books_.engine().plan(), wish());
    const UpdateExtras extras = books_.decide(books_.samples_applied() + fire.samples);
    order.snapshot = extras.snapshot;
    // With snapshots gathered for evaluation nobody else evaluates.
    const bool split = extras.evaluation != 0 && extras.snapshot.gather == 0;
    const int parts = split ? static_cast<int>(fire.releases.size()) : 1;
    for (const Fire::Release& one : fire.releases) {
        const auto part = static_cast<std::int32_t>(order.releases.size());
        const EvaluationOrder evaluation{.id = extras.evaluation, .part = part, .parts = parts};
        order.releases.push_back(
            release(one.worker, one.lag, split ? evaluation : EvaluationOrder()));
    }
    note_evaluators(order);
    send_fire(order);
    validation_.decided();
    settle_books(fire);
    books_.commit(update);
    books_.taken(extras, parts);
}

std::vector<double> ServersFlow::coefficients(const Fire& fire) const {
    std::vector<std::int32_t> steps;
    for (const FiredPush& push : fire.pushes) {
        const WorkOrder* work = work_of(push.ticket.lease);
        steps.push_back(work == nullptr ? 1 : work->steps);
    }
    return sum_coefficients(fire, steps, parts_.reference_batch);
}

void ServersFlow::settle_books(const Fire& fire) {
    for (const FiredPush& push : fire.pushes) {
        work_.erase(push.ticket.lease);
        books_.settled(outcome_of(push));
    }
}

void ServersFlow::carry_out(const ReleaseOne& one) {
    FireOrder order;
    order.version = one.version;
    order.lr = learning_rate(books_.engine().plan().lr_scale);
    order.delay_compensation = books_.engine().plan().delay_compensation;
    order.releases.push_back(release(one.worker, one.lag));
    send_servers(MessageKind::kFire, order);
}

void ServersFlow::carry_out(const Refuse& refusal) {
    validation_.decided();
    discard(refusal.push);
    const auto held = held_.extract(refusal.push);
    if (held.empty()) {
        return;
    }
    const Ticket& ticket = held.mapped();
    if (books_.leases().samples_of(ticket.lease) == 0) {
        return;  // its lease came back before, which has been settled then
    }
    books_.settled({.worker = ticket.push.worker,
                    .samples = ticket.samples,
                    .lag = refusal.lag,
                    .lag_updates = books_.engine().version() - ticket.version,
                    .weight = 0,
                    .returned = refusal.reason});
    if (books_.engine().plan().group > 1) {
        begin_fence();  // it is released before the others of its group
        take_back(ticket.push.worker, ReturnReason::kVoidRound, true);
    }
    if (refusal.reason == ReturnReason::kNonFinite) {
        books_.drop(
            {.loss_sum = ticket.loss_sum, .correct = ticket.correct, .samples = ticket.samples},
            fmt::format("worker {}: {}", ticket.push.worker,
                        non_finite_reason(ticket.loss_sum, ticket.finite)));
    }
}

/// The worker gives up what it computes and starts again with newer parameters.
/// @param lease  the one that comes back for it; null: it had none
void ServersFlow::interrupt(const Interrupt& interrupt, const ReturnLease* lease) {
    RevokeOrder order{.leases = {}, .up_to = 0, .version = interrupt.version};
    if (lease != nullptr) {
        order.leases.push_back(lease->lease);
        books_.settled({.worker = interrupt.worker,
                        .samples = lease->samples,
                        .lag = interrupt.behind,
                        .weight = 0,
                        .returned = ReturnReason::kInterrupted});
    }
    send_worker(interrupt.worker, MessageKind::kRevoke, order);
    carry_out(
        ReleaseOne{.worker = interrupt.worker, .version = interrupt.version, .lag = interrupt.lag});
}

void ServersFlow::carry_out(const ReturnLease& lease) {
    work_.erase(lease.lease);
    books_.leases().returned(lease.lease, lease.reason);
}

}  // namespace cohort
