// Orders of the session as messages to servers and workers.
#include <fmt/format.h>

#include "train/coordinator/push_times.hpp"
#include "train/coordinator/servers/servers_update_driver.hpp"
#include "train/protocol/comm_context.hpp"

namespace cohort {

void ServersUpdateDriver::apply(const UpdateOrder& update, const Fire& fire) {
    FireOrder order{.version = update.version,
                    .fraction = update.fraction,
                    .lr = update.learning_rate,
                    .work = update.work,
                    .delay_compensation = update.delay_compensation,
                    .question = update.question};
    for (const UpdateOrder::Term& term : update.terms) {
        order.pushes.push_back(
            {.push = term.push, .coefficient = term.coefficient, .version = term.version});
    }
    extras_ = run_.decide(session_.counts().samples_applied + update.samples);
    order.snapshot = extras_.snapshot;
    // With snapshots gathered for evaluation nobody else evaluates.
    const bool split = extras_.evaluation != 0 && extras_.snapshot.gather == 0;
    evaluation_parts_ = split ? static_cast<int>(fire.releases.size()) : 1;
    for (const Fire::Release& one : fire.releases) {
        const auto part = static_cast<std::int32_t>(order.releases.size());
        const EvaluationOrder evaluation{
            .id = extras_.evaluation, .part = part, .parts = evaluation_parts_};
        order.releases.push_back(
            release_order(one.worker, one.lag, split ? evaluation : EvaluationOrder()));
    }
    note_evaluators(order);
    payloads_.send_update(order);
}

void ServersUpdateDriver::applied(const UpdateOrder& update, const Fire& /*fire*/) {
    run_.updated(update);
    run_.taken(extras_, evaluation_parts_);
}

void ServersUpdateDriver::release(const ReleaseOne& one) {
    const SyncPlan& plan = session_.engine().plan();
    FireOrder order;
    order.version = one.version;
    order.lr = session_.learning_rate(plan.lr_scale);
    order.delay_compensation = plan.delay_compensation;
    order.releases.push_back(release_order(one.worker, one.lag, {}));
    send_servers(comm_, MessageKind::kFire, order);
}

/// The worker gives up what it computes and starts again with newer parameters.
void ServersUpdateDriver::interrupt(const Interrupt& interrupt, const ReturnLease* lease) {
    RevokeOrder order{.leases = {}, .up_to = 0, .version = interrupt.version};
    if (lease != nullptr) {
        order.leases.push_back(lease->lease);
    }
    send_worker(comm_, interrupt.worker, MessageKind::kRevoke, order);
    release(
        ReleaseOne{.worker = interrupt.worker, .version = interrupt.version, .lag = interrupt.lag});
}

void ServersUpdateDriver::refuse(const Refuse& refusal, const SessionPush& /*push*/,
                                 bool /*held*/) {
    payloads_.discard(refusal.push);
}

void ServersUpdateDriver::dropped(const SessionPush& push) {
    const PushTicket& ticket = push.ticket;
    run_.drop({.loss_sum = ticket.loss_sum, .correct = push.correct, .samples = ticket.samples},
              fmt::format("worker {}: {}", ticket.id.worker,
                          non_finite_reason(ticket.loss_sum, ticket.finite)));
}

void ServersUpdateDriver::deal(const std::vector<DealtLease>& leases) {
    for (DealtLease lease : leases) {
        for (std::int32_t& member : lease.order.work.group) {
            member = comm_.map.rank_of_worker(member);
        }
        send_worker(comm_, lease.worker, MessageKind::kLease, lease.order);
    }
}

void ServersUpdateDriver::deal_validation(const ValidationSampler::Dealt& lease) {
    send_worker(comm_, lease.worker, MessageKind::kLease,
                LeaseOrder{.lease = lease.lease,
                           .epoch = lease.epoch,
                           .position = lease.position,
                           .count = lease.count,
                           .work = {},
                           .validation = true});
}

void ServersUpdateDriver::revoke(int worker, const std::vector<std::uint64_t>& leases) {
    send_worker(comm_, worker, MessageKind::kRevoke, RevokeOrder{.leases = leases});
}

void ServersUpdateDriver::joins(int worker) {
    const UpdateEngine& engine = session_.engine();
    send_worker(comm_, worker, MessageKind::kJoin,
                JoinOrder{.incarnation = engine.incarnation(worker),
                          .version = engine.version(),
                          .leases_up_to = session_.leases().open().newest()});
    payloads_.send_frees(worker);
}

}  // namespace cohort
