#include "train/coordinator/servers/servers_update_driver.hpp"

#include <fmt/format.h>

#include "train/coordinator/push_times.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/worker/node_staging.hpp"

namespace cohort {

ServersUpdateDriver::ServersUpdateDriver(CommContext comm, const JobContext& parts,
                                         UpdateObserver& observer)
    : comm_(comm),
      parts_(parts),
      observer_(observer),
      session_(observer.session()),
      arrivals_(comm.map.servers),
      payloads_(comm,
                staging_nodes(comm.map, parts.options.node_staging, parts.options.deterministic),
                NodeCards(comm.map, parts.options.push_tree, push_bytes(parts)),
                ShardMoves::first_layout(parts, comm.map), parts.options.wire),
      moves_(comm, parts, session_, payloads_),
      orders_(comm, observer, payloads_, moves_),
      scheduler_(session_, orders_, orders_, ServerScheduler::Dealing::kAhead, parts.options.seed,
                 parts.train_set->info().samples) {
}

/// Every worker that is left starts again, with the evaluation that `extras` ask for.
FireOrder ServersUpdateDriver::release_all(const UpdateExtras& extras) {
    for (int worker = 0; worker < comm_.map.workers(); ++worker) {
        if (payloads_.live(worker)) {
            scheduler_.release(worker);
        }
    }
    return orders_.releases_to_all(extras);
}

int ServersUpdateDriver::begin(const BeginOrder& order, const UpdateExtras& extras) {
    scheduler_.begin();
    const FireOrder first = release_all(extras);
    send_servers(comm_, MessageKind::kBegin, order);
    for (int worker = 0; worker < comm_.map.workers(); ++worker) {
        send_worker(comm_, worker, MessageKind::kBegin, order);
    }
    payloads_.send_releases(first);
    scheduler_.deal();
    return static_cast<int>(first.releases.size());
}

bool ServersUpdateDriver::handle(const Message& message) {
    switch (static_cast<MessageKind>(message.kind)) {
        case MessageKind::kPushReport: arrived(decode<PushReport>(message.body)); return true;
        case MessageKind::kPushReceived: arrived(decode<PushReceived>(message.body)); return true;
        case MessageKind::kGradientStats:
            arrived(decode<GradientStatsReply>(message.body));
            return true;
        case MessageKind::kResharded: arrived(decode<ReshardedNote>(message.body)); return true;
        default: return false;
    }
}

std::string ServersUpdateDriver::servers(const std::string& words) {
    if (moves_.request(words)) {
        scheduler_.move();
    }
    return moves_.answer();
}

int ServersUpdateDriver::request(const UpdateExtras& extras) {
    if (session_.stopping()) {
        close();
    }
    FireOrder order = release_all(extras);
    const auto parts = static_cast<int>(order.releases.size());
    if (extras.evaluation == 0) {
        order.releases.clear();  // nobody shall start again
    }
    payloads_.send_releases(order);
    return parts;
}

std::vector<int> ServersUpdateDriver::awaited() const {
    std::vector<int> ranks;
    for (const int worker : session_.engine().awaited()) {
        ranks.push_back(comm_.map.rank_of_worker(worker));
    }
    return ranks;
}

void ServersUpdateDriver::lost(int worker) {
    if (payloads_.live(worker)) {
        scheduler_.worker_lost(worker, payloads_.worker_lost(worker, arrivals_.drop(worker)));
    }
}

/// Servers wait for no sum of the worker: what they still have to save comes after their last
/// update.
void ServersUpdateDriver::lost_at_the_end(int worker) {
    if (worker >= 0 && payloads_.live(worker)) {
        payloads_.worker_lost_at_the_end(worker);
    }
}

void ServersUpdateDriver::joined(int worker) {
    if (!payloads_.live(worker) && !session_.stopping()) {
        payloads_.worker_joined(worker);
        scheduler_.worker_joined(worker);
    }
}

/// The push's worker is live and has not been lost since.
bool ServersUpdateDriver::current(const PushId& push) const {
    return payloads_.live(push.worker) &&
           push.incarnation == session_.engine().incarnation(push.worker);
}

void ServersUpdateDriver::arrived(const PushReport& report) {
    payloads_.arrived(report);
    if (!current(report.ticket.id)) {
        payloads_.discard(report.ticket.id);
        return;
    }
    if (!report.given_up && !report.validation) {
        observer_.spent(report.times.compute_s, report.times.exchange_s, 0);
    }
    if (const auto push = arrivals_.reported(report, clock_.now())) {
        complete(*push);
    }
}

void ServersUpdateDriver::arrived(const PushReceived& staged) {
    moves_.busy(staged.server, staged.busy_s);
    if (!current(staged.push)) {
        send_server(comm_, staged.server, MessageKind::kDiscard, DiscardOrder{{staged.push}});
        return;
    }
    if (const auto push = arrivals_.staged(staged, clock_.now())) {
        complete(*push);
    }
}

void ServersUpdateDriver::arrived(const GradientStatsReply& summed) {
    Measured& update = measured_[summed.version];
    update.squares += summed.squares;
    if (++update.parts == comm_.map.servers) {
        session_.gradients().answered(summed.version, update.squares);
        measured_.erase(summed.version);
    }
}

/// Pushes in flight across the move were given up, or are only to compare others with: servers
/// discard what is cut by an earlier layout.
void ServersUpdateDriver::arrived(const ReshardedNote& note) {
    if (moves_.arrived(note)) {
        for (int worker = 0; worker < comm_.map.workers(); ++worker) {
            (void)arrivals_.drop(worker);
        }
        scheduler_.moved();
    }
}

/// A push with ticket and payload is an event for the engine, unless it was given up or is only to
/// compare others with.
void ServersUpdateDriver::complete(const PushArrivals::Complete& push) {
    const PushReport& report = push.report;
    const PushTicket& ticket = report.ticket;
    if (report.given_up) {
        payloads_.discard(ticket.id);
        return;
    }
    if (report.validation) {
        if (ticket.finite && !session_.stopping() && report.layout == moves_.newest_layout()) {
            send_servers(comm_, MessageKind::kReference, ReferenceOrder{ticket.id});
        } else {
            payloads_.discard(ticket.id);
        }
        return;
    }
    if (!scheduler_.arrived(ticket.id.worker)) {  // its lease has returned already
        payloads_.discard(ticket.id);
        return;
    }
    learn_from(push);
    scheduler_.push(ticket);
    if (!session_.stopping() && moves_.updated()) {
        scheduler_.move();
    }
}

/// What the push took, and what its halves say of gradients.
void ServersUpdateDriver::learn_from(const PushArrivals::Complete& push) {
    const PushReport& report = push.report;
    const PushTicket& ticket = report.ticket;
    const double bytes = push_bytes(parts_);
    IterationRecord record = record_of(report,
                                       {.seconds = push.sending_s,
                                        .before_s = push.before_s,
                                        .bytes = report.slot < 0 ? bytes : 0},
                                       bytes);
    if (const LeaseOrder* const lease = session_.leases().open().find(ticket.lease)) {
        record.steps = lease->work.steps;
    }
    observer_.timed(record);
    if (!parts_.options.deterministic) {
        payloads_.received(ticket.id.worker, record.use.rx_bytes_s);
    }
    if (report.halves && ticket.finite) {
        session_.gradients().halves(ticket.samples, {report.first_squares, report.second_squares},
                                    ticket.gradient_norm);
    }
}

/// The end of the run: nobody works on a lease any more.
void ServersUpdateDriver::close() {
    if (std::exchange(closed_, true)) {
        return;
    }
    const std::uint64_t newest = session_.leases().open().newest();
    for (int worker = 0; worker < comm_.map.workers(); ++worker) {
        if (payloads_.live(worker)) {
            send_worker(comm_, worker, MessageKind::kRevoke,
                        RevokeOrder{.leases = {}, .up_to = newest});
        }
    }
    for (const PushId& push : scheduler_.close()) {
        payloads_.discard(push);
    }
}

std::unique_ptr<UpdateDriver> make_servers_driver(CommContext comm, const JobContext& parts,
                                                  UpdateObserver& observer) {
    return std::make_unique<ServersUpdateDriver>(comm, parts, observer);
}

}  // namespace cohort
