#include "train/coordinator/servers/payload_router.hpp"

#include <utility>

#include "core/log.hpp"
#include "train/protocol/comm_context.hpp"

namespace cohort {

PayloadRouter::PayloadRouter(CommContext comm, std::vector<bool> nodes, NodeCards cards,
                             ShardLayout layout, Wire wire)
    : comm_(comm),
      wire_(wire),
      outcomes_(static_cast<std::size_t>(comm.map.workers())),
      nodes_(comm.map, std::move(nodes)),
      cards_(std::move(cards)),
      routes_(comm.map, cards_.tree()),
      layout_(std::move(layout)),
      live_(static_cast<std::size_t>(comm.map.workers()), true) {
    nodes_.use_tree(cards_.tree());
}

void PayloadRouter::received(int worker, double bytes_per_s) {
    if (cards_.received(worker, bytes_per_s)) {
        nodes_.use_tree(cards_.tree());
        routes_.use_tree(cards_.tree());
    }
}

void PayloadRouter::arrived(const PushReport& report) {
    nodes_.arrived(report);
    routes_.arrived(report.ticket);
}

/// What is told belongs to the parameters of the release: a worker puts it to use at the same
/// mini-batch in every run.
void PayloadRouter::add_outcomes(std::vector<ReleaseOrder>& releases) const {
    for (ReleaseOrder& release : releases) {
        const PushOutcomes& outcomes = outcomes_.at(static_cast<std::size_t>(release.worker));
        if (wire_ == Wire::kBf16 && outcomes.incarnation == release.incarnation) {
            release.outcomes = outcomes;
        }
    }
}

void PayloadRouter::send_releases(FireOrder order) {
    for (const ReleaseOrder& release : order.releases) {
        routes_.released(release.worker);
    }
    add_outcomes(order.releases);
    send_servers(comm_, MessageKind::kFire, order);
}

void PayloadRouter::discard(const PushId& push) {
    outcomes_.at(static_cast<std::size_t>(push.worker)).note(push, false);
    const auto order = nodes_.discard(push);
    if (order && !live(push.worker)) {
        frees_.push_back(order->second);
    } else if (order) {
        send_order(comm_, {order->first, Port::kNode}, NodeMessage::kFree, order->second);
    } else {
        send_servers(comm_, MessageKind::kDiscard, DiscardOrder{{push}});
    }
}

void PayloadRouter::send_update(FireOrder& order) {
    for (const UpdateTerm& term : order.update.terms) {
        outcomes_.at(static_cast<std::size_t>(term.push.worker)).note(term.push, true);
    }
    add_outcomes(order.releases);
    routes_.split(order, live_);
    const NodeAggregation::Orders orders = nodes_.split(order, layout_);
    send_servers(comm_, MessageKind::kFire, order);
    send_node_orders(orders);
}

void PayloadRouter::send_node_orders(const NodeAggregation::Orders& orders) {
    for (const auto& [rank, order] : orders.drops) {
        send_order(comm_, {rank, Port::kNode}, NodeMessage::kDrop, order);
    }
    for (const auto& [rank, order] : orders.sums) {
        send_order(comm_, {rank, Port::kNode}, NodeMessage::kSum, order);
    }
    if (!orders.gone.empty()) {
        for (const PushId& sum : orders.gone) {
            log_warn("update {} goes on without the gradients of node {}, which is lost",
                     sum.sequence, node_of_sum(sum));
        }
        send_servers(comm_, MessageKind::kDiscard, DiscardOrder{orders.gone});
    }
}

std::vector<PushId> PayloadRouter::worker_lost(int worker, const std::vector<PushId>& incomplete) {
    live_.at(static_cast<std::size_t>(worker)) = false;
    for (const PushId& push : incomplete) {
        discard(push);
    }
    const NodeAggregation::Orders orders = nodes_.lost(worker);
    send_node_orders(orders);
    if (const FireOrder again = routes_.lost(worker); !again.releases.empty()) {
        send_servers(comm_, MessageKind::kFire, again);
    }
    return orders.stranded;
}

void PayloadRouter::worker_lost_at_the_end(int worker) {
    live_.at(static_cast<std::size_t>(worker)) = false;
    send_node_orders(nodes_.lost_at_the_end(worker));
}

void PayloadRouter::worker_joined(int worker) {
    live_.at(static_cast<std::size_t>(worker)) = true;
    send_node_orders(nodes_.joined(worker));
}

void PayloadRouter::send_frees(int worker) {
    std::erase_if(frees_, [&](const NodeFreeOrder& order) {
        const bool own = order.push.worker == worker;
        if (own) {
            send_order(comm_, {comm_.map.rank_of_worker(worker), Port::kNode}, NodeMessage::kFree,
                       order);
        }
        return own;
    });
}

}  // namespace cohort
