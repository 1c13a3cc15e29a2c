#include "train/coordinator/servers/order_sender.hpp"

#include <fmt/format.h>

#include "train/coordinator/push_times.hpp"
#include "train/protocol/comm_context.hpp"

namespace cohort {

FireOrder OrderSender::releases_to_all(const UpdateExtras& extras) {
    FireOrder order;
    order.update = {.version = session_.engine().version(),
                    .delay_compensation = session_.engine().plan().delay_compensation};
    order.snapshot = extras.snapshot;
    for (int worker = 0; worker < comm_.map.workers(); ++worker) {
        if (payloads_.live(worker)) {
            order.releases.push_back(release_order(worker, 0, {}));
        }
    }
    const auto parts = static_cast<std::int32_t>(order.releases.size());
    for (std::int32_t part = 0; part < parts && extras.evaluation != 0; ++part) {
        order.releases[static_cast<std::size_t>(part)].evaluation = {
            .id = extras.evaluation, .part = part, .parts = parts};
    }
    note_evaluators(order);
    return order;
}

ReleaseOrder OrderSender::release_order(int worker, double lag,
                                        const EvaluationOrder& evaluation) const {
    return {.worker = worker,
            .lag = lag,
            .evaluation = evaluation,
            .incarnation = session_.engine().incarnation(worker)};
}

/// Who does which part of the evaluation that the releases bring with them.
void OrderSender::note_evaluators(const FireOrder& order) {
    if (order.releases.empty() || order.releases.front().evaluation.id == 0) {
        return;
    }
    evaluators_.clear();
    for (const ReleaseOrder& release : order.releases) {
        evaluators_.push_back(comm_.map.rank_of_worker(release.worker));
    }
}

void OrderSender::apply(const UpdateOrder& update, const Fire& fire) {
    FireOrder order{.update = update, .releases = {}, .snapshot = {}};
    extras_ = observer_.decide(session_.counts().samples_applied + update.samples);
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

void OrderSender::applied(const UpdateOrder& update, const Fire& /*fire*/) {
    observer_.updated(update);
    observer_.taken(extras_, evaluation_parts_);
}

void OrderSender::release(const ReleaseOne& one) {
    const SyncPlan& plan = session_.engine().plan();
    FireOrder order;
    order.update = {.version = one.version,
                    .learning_rate = session_.learning_rate(plan.lr_scale),
                    .delay_compensation = plan.delay_compensation};
    order.releases.push_back(release_order(one.worker, one.lag, {}));
    payloads_.send_releases(order);
}

/// The worker gives up what it computes and starts again with newer parameters.
void OrderSender::interrupt(const Interrupt& interrupt, const ReturnLease* lease) {
    RevokeOrder order{.leases = {}, .up_to = 0, .version = interrupt.version};
    if (lease != nullptr) {
        order.leases.push_back(lease->lease);
    }
    send_worker(comm_, interrupt.worker, MessageKind::kRevoke, order);
    release(
        ReleaseOne{.worker = interrupt.worker, .version = interrupt.version, .lag = interrupt.lag});
}

void OrderSender::refuse(const Refuse& refusal, const PushTicket& /*ticket*/, bool /*held*/) {
    payloads_.discard(refusal.push);
}

void OrderSender::dropped(const PushTicket& ticket) {
    const LeaseOrder* const lease = session_.leases().open().find(ticket.lease);
    NonFiniteBatch dropped{
        .result = {.loss_sum = ticket.loss_sum,
                   .correct = ticket.correct,
                   .samples = ticket.samples},
        .because = fmt::format("worker {}: {}", ticket.id.worker,
                               non_finite_reason(ticket.loss_sum, ticket.finite)),
        .leases = {}};
    if (lease != nullptr) {
        dropped.leases.push_back(slice_of(*lease));
    }
    observer_.drop(dropped);
}

void OrderSender::deal(const std::vector<DealtLease>& leases) {
    for (DealtLease lease : leases) {
        for (std::int32_t& member : lease.order.work.group) {
            member = comm_.map.rank_of_worker(member);
        }
        send_worker(comm_, lease.worker, MessageKind::kLease, lease.order);
    }
}

void OrderSender::deal_validation(const ValidationSampler::Dealt& lease) {
    send_worker(comm_, lease.worker, MessageKind::kLease,
                LeaseOrder{.lease = lease.lease,
                           .epoch = lease.epoch,
                           .position = lease.position,
                           .count = lease.count,
                           .work = {},
                           .validation = true});
}

void OrderSender::revoke(int worker, const std::vector<std::uint64_t>& leases) {
    send_worker(comm_, worker, MessageKind::kRevoke, RevokeOrder{.leases = leases});
}

void OrderSender::joins(int worker) {
    const UpdateEngine& engine = session_.engine();
    send_worker(comm_, worker, MessageKind::kJoin,
                JoinOrder{.incarnation = engine.incarnation(worker),
                          .version = engine.version(),
                          .leases_up_to = session_.leases().open().newest(),
                          .layout = payloads_.layout()});
    payloads_.send_frees(worker);
}

}  // namespace cohort
