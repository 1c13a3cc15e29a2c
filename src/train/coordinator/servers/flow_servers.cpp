#include "train/coordinator/servers/flow_servers.hpp"

#include <array>

#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "train/worker/node_slots.hpp"

namespace cohort {

ServersFlow::ServersFlow(Links links, const JobParts& parts, RunBooks& books)
    : links_(links),
      parts_(parts),
      books_(books),
      arrivals_(links.map.servers),
      nodes_(links_.map,
             staging_nodes(links.map, parts.options.node_staging, parts.options.deterministic)),
      gradients_(parts.reference_batch),
      validation_(parts.options.seed, parts.train_set->info().samples, parts.options.batch),
      batches_(at(links.map.workers()), parts.options.batch),
      live_(batches_.size(), true),
      idle_(batches_.size(), false),
      released_(batches_.size(), false),
      running_(batches_.size(), false),
      short_(batches_.size(), false) {
}

int ServersFlow::begin(const BeginOrder& order, const UpdateExtras& extras) {
    FireOrder first = releases_to_all(extras);
    const auto parts = static_cast<int>(first.releases.size());
    carry_out_event([&] {
        for (int server = 0; server < links_.map.servers; ++server) {
            send_server(server, MessageKind::kBegin, order);
        }
        for (int worker = 0; worker < links_.map.workers(); ++worker) {
            send_worker(worker, MessageKind::kBegin, order);
        }
        send_servers(MessageKind::kFire, first);
        books_.engine().set_noise_scale(parts_.options.noise_scale);
        shape_leases();
        deal();
    });
    return parts;
}

bool ServersFlow::handle(const Message& message) {
    switch (static_cast<MessageKind>(message.kind)) {
        case MessageKind::kTicket:
            carry_out_event([&] { arrived(decode<Ticket>(message.body)); });
            return true;
        case MessageKind::kStaged:
            carry_out_event([&] { arrived(decode<Staged>(message.body)); });
            return true;
        case MessageKind::kSummed: arrived(decode<Summed>(message.body)); return true;
        default: return false;
    }
}

int ServersFlow::request(const UpdateExtras& extras) {
    if (books_.stopping()) {
        close();
    }
    FireOrder order = releases_to_all(extras);
    const auto parts = static_cast<int>(order.releases.size());
    if (extras.evaluation == 0) {
        order.releases.clear();  // nobody shall start again
    }
    send_servers(MessageKind::kFire, order);
    return parts;
}

std::vector<int> ServersFlow::awaited() const {
    std::vector<int> ranks;
    for (const int worker : books_.engine().awaited()) {
        ranks.push_back(links_.map.rank_of_worker(worker));
    }
    return ranks;
}

/// Its worker is here and has not been lost since.
bool ServersFlow::current(const PushId& push) const {
    return live_.at(at(push.worker)) &&
           push.incarnation == books_.engine().incarnation(push.worker);
}

/// Where its payload is, in a slot of its node or on the servers.
void ServersFlow::discard(const PushId& push) {
    const auto order = nodes_.discard(push);
    if (order && !live_.at(at(push.worker))) {
        frees_.push_back(order->second);
    } else if (order) {
        send_order(links_, {order->first, Port::kNode}, NodeMessage::kFree, order->second);
    } else {
        send_servers(MessageKind::kDiscard, DiscardOrder{{push}});
    }
}

/// An update, with the nodes' sums in place of what lies there.
void ServersFlow::send_fire(FireOrder& order) {
    const NodeDesk::Orders orders = nodes_.split(order);
    send_servers(MessageKind::kFire, order);
    send_node_orders(orders);
}

void ServersFlow::send_node_orders(const NodeDesk::Orders& orders) {
    for (const auto& [rank, order] : orders.sums) {
        send_order(links_, {rank, Port::kNode}, NodeMessage::kSum, order);
    }
    if (!orders.gone.empty()) {
        for (const PushId& sum : orders.gone) {
            log_warn("update {} goes on without the gradients of node {}, which is lost",
                     sum.sequence, node_of_sum(sum));
        }
        send_servers(MessageKind::kDiscard, DiscardOrder{orders.gone});
    }
}

void ServersFlow::arrived(const Ticket& ticket) {
    nodes_.arrived(ticket);
    if (!current(ticket.push)) {
        discard(ticket.push);
        return;
    }
    if (!ticket.given_up && !ticket.validation) {
        books_.spent(ticket.times.compute_s, ticket.times.exchange_s, 0);
    }
    if (const auto push = arrivals_.ticket(ticket, clock_.now())) {
        complete(*push);
    }
}

void ServersFlow::arrived(const Staged& staged) {
    if (!current(staged.push)) {
        send_server(staged.server, MessageKind::kDiscard, DiscardOrder{{staged.push}});
        return;
    }
    if (const auto push = arrivals_.staged(staged, clock_.now())) {
        complete(*push);
    }
}

void ServersFlow::arrived(const Summed& summed) {
    Measured& update = measured_[summed.version];
    update.answer.add(summed.answer);
    if (++update.parts == links_.map.servers) {
        gradients_.answered(summed.version, update.answer);
        measured_.erase(summed.version);
        learned_of_gradients();
    }
}

GradientWish ServersFlow::wish() const {
    return {.every_update = books_.engine().plan().lr_unit == SyncPlan::LrUnit::kAdaScale &&
                            parts_.options.noise_scale == 0,
            .now_and_then = books_.wants_gradients()};
}

/// What was known holds until it is known anew.
void ServersFlow::learned_of_gradients() {
    if (const double phi = gradients_.noise_scale(); phi > 0 && wish().every_update) {
        books_.engine().set_noise_scale(phi);
    }
    books_.measured({.noise_scale = gradients_.noise_scale(),
                     .curvature = gradients_.step_curvature(),
                     .agreement = gradients_.agreement()});
}

/// A push with ticket and payload is an event for the engine, unless it was given up or is only to
/// compare others with.
void ServersFlow::complete(const PushArrivals::Complete& push) {
    const Ticket& ticket = push.ticket;
    if (ticket.given_up) {
        discard(ticket.push);
        return;
    }
    if (ticket.validation) {
        if (ticket.finite && !books_.stopping()) {
            send_servers(MessageKind::kReference, ReferenceOrder{ticket.push});
        } else {
            discard(ticket.push);
        }
        return;
    }
    released_[at(ticket.push.worker)] = false;
    running_[at(ticket.push.worker)] = false;
    if (books_.stopping()) {  // its lease has come back already
        discard(ticket.push);
        return;
    }
    learn_from(push);
    held_[ticket.push] = ticket;
    carry_out(books_.engine().push({.id = ticket.push,
                                    .lease = ticket.lease,
                                    .version = ticket.version,
                                    .samples = ticket.samples,
                                    .finite = ticket.finite,
                                    .loss_sum = ticket.loss_sum,
                                    .gradient_norm = ticket.gradient_norm,
                                    .work = ticket.work,
                                    .reference_dot = push.reference_dot,
                                    .reference_norm = push.reference_norm}));
    shorten();
    deal();
}

/// What it took, and what its halves say of gradients.
void ServersFlow::learn_from(const PushArrivals::Complete& push) {
    const Ticket& ticket = push.ticket;
    const double bytes = push_bytes(parts_);
    books_.timed(record_of(ticket,
                           {.seconds = push.sending_s,
                            .before_s = push.before_s,
                            .bytes = ticket.slot < 0 ? bytes : 0},
                           bytes));
    if (ticket.halves && ticket.finite) {
        gradients_.halves(ticket.samples, {ticket.first_squares, ticket.second_squares},
                          ticket.gradient_norm * ticket.gradient_norm);
        learned_of_gradients();
    }
}

FireOrder ServersFlow::releases_to_all(const UpdateExtras& extras) {
    FireOrder order;
    order.version = books_.engine().version();
    order.delay_compensation = books_.engine().plan().delay_compensation;
    order.snapshot = extras.snapshot;
    for (int worker = 0; worker < links_.map.workers(); ++worker) {
        if (live_[at(worker)]) {
            order.releases.push_back(release(worker, 0));
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

/// Who does which part of the evaluation that the releases bring with them.
void ServersFlow::note_evaluators(const FireOrder& order) {
    if (order.releases.empty() || order.releases.front().evaluation.id == 0) {
        return;
    }
    evaluators_.clear();
    for (const ReleaseOrder& release : order.releases) {
        evaluators_.push_back(links_.map.rank_of_worker(release.worker));
    }
}

/// The end of the run: nobody works on a lease any more, and both books of samples agree.
void ServersFlow::close() {
    if (closed_) {
        return;
    }
    closed_ = true;
    for (int worker = 0; worker < links_.map.workers(); ++worker) {
        if (live_[at(worker)]) {
            send_worker(worker, MessageKind::kRevoke,
                        RevokeOrder{.leases = {}, .up_to = books_.leases().newest()});
        }
    }
    UpdateEngine& engine = books_.engine();
    (void)engine.stop();
    for (const auto& [push, ticket] : held_) {
        discard(push);
    }
    held_.clear();
    const EngineAccounts mine = engine.accounts();
    const SampleAccounts desk = books_.leases().part_accounts();
    const std::array<std::pair<ReturnReason, std::int64_t>, kReturnReasons> reasons{
        {{ReturnReason::kDropped, desk.returned_dropped},
         {ReturnReason::kNonFinite, desk.returned_non_finite},
         {ReturnReason::kInterrupted, desk.returned_interrupted},
         {ReturnReason::kLost, desk.returned_lost},
         {ReturnReason::kVoidRound, desk.returned_void_round},
         {ReturnReason::kStop, desk.returned_stop}}};
    bool same = mine.leased == desk.leased && mine.applied == desk.applied &&
                mine.outstanding == desk.outstanding;
    for (const auto& [reason, samples] : reasons) {
        same = same && mine.returned_for(reason) == samples;
    }
    check_invariant(same, "the accounts of engine and leases agree");
}

std::unique_ptr<UpdateFlow> make_servers_flow(Links links, const JobParts& parts, RunBooks& books) {
    return std::make_unique<ServersFlow>(links, parts, books);
}

}  // namespace cohort
