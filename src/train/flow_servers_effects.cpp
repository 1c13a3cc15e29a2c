#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "cohort/core/error.hpp"
#include "flow_servers.hpp"

// What the engine decides, carried out: orders to servers and workers, entries in the books.
namespace cohort {

void ServersFlow::carry_out(const Effects& effects) {
    for (std::size_t i = 0; i < effects.size(); ++i) {
        if (const auto* stopped = std::get_if<Interrupt>(&effects[i])) {
            const ReturnLease* lease =
                i + 1 < effects.size() ? std::get_if<ReturnLease>(&effects[i + 1]) : nullptr;
            const bool follows = lease != nullptr && lease->worker == stopped->worker &&
                                 lease->reason == ReturnReason::kInterrupted;
            interrupt(*stopped, follows ? lease : nullptr);
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
    return {.worker = worker,
            .lag = lag,
            .evaluation = evaluation,
            .incarnation = books_.engine().incarnation(worker)};
}

void ServersFlow::carry_out(const Fire& fire) {
    // Summed in the order of leases, not of arrival: the same bits whatever the timing.
    std::vector<FiredPush> pushes = fire.pushes;
    std::sort(pushes.begin(), pushes.end(), [](const FiredPush& a, const FiredPush& b) {
        return a.ticket.lease < b.ticket.lease;
    });
    UpdateRecord update{
        .version = fire.version,
        .fraction = fire.fraction,
        .learning_rate = parts_.schedule.lr(parts_.options.lr, books_.samples_applied())};
    update.epoch = books_.leases().epoch_of(pushes.front().ticket.lease);
    FireOrder order{.version = fire.version,
                    .fraction = fire.fraction,
                    .lr = update.learning_rate,
                    .work = fire.work,
                    .delay_compensation = books_.engine().plan().delay_compensation};
    for (const FiredPush& push : pushes) {
        const auto held = held_.extract(push.ticket.id);
        check_invariant(!held.empty(), "a fired push is staged");
        order.pushes.push_back({.push = push.ticket.id,
                                .coefficient = coefficient(push, fire),
                                .version = push.ticket.version});
        update.leases.push_back(push.ticket.lease);
        update.result.samples += push.ticket.samples;
        update.result.loss_sum += push.ticket.loss_sum;
        update.result.correct += held.mapped().correct;
        update.gradient_norm += push.ticket.gradient_norm / static_cast<double>(pushes.size());
    }
    measure(fire, order);
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

/// A sample weighs the same in gradients and deltas: a delta of s local steps over b samples was
/// made with b/s samples a step, so it counts as their share of a reference batch; the mean when
/// they make up one or more.
double ServersFlow::coefficient(const FiredPush& push, const Fire& fire) const {
    if (fire.work == Work::kGradient) {
        return static_cast<double>(push.ticket.samples) * push.weight /
               static_cast<double>(fire.samples);
    }
    const auto step_samples = [this](const FiredPush& one) {
        const WorkOrder* work = work_of(one.ticket.lease);
        return static_cast<double>(one.ticket.samples) / (work == nullptr ? 1 : work->steps);
    };
    double all = 0;
    for (const FiredPush& one : fire.pushes) {
        all += step_samples(one);
    }
    return step_samples(push) * push.weight /
           std::max(all, static_cast<double>(parts_.reference_batch));
}

/// Two batch sizes are needed for the noise scale: those of the pushes and that of their sum.
void ServersFlow::measure(const Fire& fire, FireOrder& order) {
    const bool plain = std::all_of(fire.pushes.begin(), fire.pushes.end(),
                                   [](const FiredPush& push) { return push.weight == 1; });
    order.measure = books_.engine().plan().lr_unit == SyncPlan::LrUnit::kAdaScale &&
                    parts_.options.noise_scale == 0 && fire.work == Work::kGradient &&
                    fire.pushes.size() > 1 && plain;
    if (!order.measure) {
        return;
    }
    Measured& update = measured_[fire.version];
    const auto count = static_cast<double>(fire.pushes.size());
    for (const FiredPush& push : fire.pushes) {
        update.squares += push.ticket.gradient_norm * push.ticket.gradient_norm / count;
        update.inverse_batch += 1 / (static_cast<double>(push.ticket.samples) * count);
    }
    update.samples = static_cast<double>(fire.samples);
}

void ServersFlow::settle_books(const Fire& fire) {
    for (const FiredPush& push : fire.pushes) {
        work_.erase(push.ticket.lease);
        books_.settled({.worker = push.ticket.id.worker,
                        .samples = push.ticket.samples,
                        .lag = push.lag,
                        .lag_updates = push.lag_updates,
                        .weight = push.weight,
                        .over_bound = push.over_bound,
                        .returned = std::nullopt});
    }
}

void ServersFlow::carry_out(const ReleaseOne& one) {
    FireOrder order;
    order.version = one.version;
    order.lr = parts_.schedule.lr(parts_.options.lr, books_.samples_applied());
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
