#include "ideal_workers.hpp"

#include <algorithm>

namespace cohort {
namespace {

/// What a transfer takes when it has a healthy cluster to itself.
template <class Send>
double alone_s(const VirtualCluster& kind, const Send& send) {
    EventQueue queue;
    VirtualCluster cluster(queue, kind.profile(), kind.nodes(), nullptr);
    cluster.start();
    bool over = false;
    send(cluster, [&over] { over = true; });
    while (!over && queue.step()) {
    }
    return queue.now();
}

}  // namespace

IdealWorkers::IdealWorkers(VirtualCluster& cluster, const JobSpec& spec)
    : cluster_(cluster), spec_(spec), cards_(static_cast<std::size_t>(cluster.nodes())) {
    const double bytes = spec.workload.parameter_bytes;
    for (const int node : spec.worker_nodes) {
        seats_.push_back({.place = cluster.add_place(node)});
        const auto same = std::find(spec.worker_nodes.begin(), spec.worker_nodes.end(), node);
        const auto first = static_cast<std::size_t>(same - spec.worker_nodes.begin());
        Seat& seat = seats_.back();
        if (first + 1 < seats_.size() || (spec.server_nodes.empty() && seats_.size() > 1)) {
            const Seat& like = seats_[spec.server_nodes.empty() ? 0 : first];
            seat.pull_s = like.pull_s;
            seat.exchange_s = like.exchange_s;
        } else if (!spec.server_nodes.empty()) {
            seat.pull_s = alone_s(cluster, [&](VirtualCluster& healthy, auto over) {
                healthy.gather(spec.server_nodes, node, bytes, over);
            });
            seat.exchange_s = alone_s(cluster, [&](VirtualCluster& healthy, auto over) {
                healthy.scatter(node, spec.server_nodes, bytes, over);
            });
        } else if (spec.workers() > 1) {
            seat.exchange_s = alone_s(cluster, [&](VirtualCluster& healthy, auto over) {
                healthy.all_reduce(spec.worker_nodes, bytes, over);
            });
        }
    }
    for (int node = 0; node < cluster.nodes(); ++node) {
        card(node).place = cluster.add_place(node);
    }
    for (const int node : spec.server_nodes) {
        card(node).served += 1.0 / spec.servers();
    }
}

void IdealWorkers::begin() {
    for (int worker = 0; worker < spec_.workers(); ++worker) {
        iterate(worker);
    }
}

/// A transfer at its own card's share, or at that of a server's card if that is what holds it up.
double IdealWorkers::slowed(double alone_s, double own_share) const {
    double factor = 1 / own_share;
    for (const Card& one : cards_) {
        if (one.served > 0) {
            const Shares shares = cluster_.shares(one.place);
            factor = std::max(factor, one.served / std::min(shares.tx, shares.rx));
        }
    }
    return alone_s * factor;
}

/// How much more than it carries the most wanted card is asked for, at least 1. Every iteration
/// moves the parameters in both directions between its worker and the servers of other nodes; in a
/// ring nobody sends over a card but its own workers.
double IdealWorkers::stretch() const {
    double most = 1;
    for (const Card& one : cards_) {
        if (spec_.server_nodes.empty()) {
            break;
        }
        const double wanted = spec_.workload.parameter_bytes *
                              ((rate_ - one.rate) * one.served + one.rate * (1 - one.served));
        const Shares shares = cluster_.shares(one.place);
        most = std::max(
            most, wanted / (cluster_.profile().nic_bytes_per_s * std::min(shares.tx, shares.rx)));
    }
    return most;
}

void IdealWorkers::iterate(int worker) {
    Seat& one = seat(worker);
    one.begun_s = cluster_.queue().now();
    if (spec_.server_nodes.empty()) {
        compute(worker);
    } else {
        cluster_.queue().after(slowed(one.pull_s, cluster_.shares(one.place).rx),
                               [this, worker] { compute(worker); });
    }
}

/// The exchange runs beside backward, as in the job.
void IdealWorkers::compute(int worker) {
    seat(worker).parts = 2;
    cluster_.compute(
        seat(worker).place, spec_.cost_of(spec_.setting.batch),
        [this, worker] {
            const Shares shares = cluster_.shares(seat(worker).place);
            const double share =
                spec_.server_nodes.empty() ? std::min(shares.tx, shares.rx) : shares.tx;
            cluster_.queue().after(slowed(seat(worker).exchange_s, share),
                                   [this, worker] { part_done(worker); });
        },
        [this, worker] { part_done(worker); });
}

void IdealWorkers::part_done(int worker) {
    if (--seat(worker).parts > 0) {
        return;
    }
    if (spec_.server_nodes.empty()) {
        cluster_.work(seat(worker).place, spec_.update_cost(cluster_.profile()),
                      [this, worker] { ended(worker); });
    } else {
        ended(worker);
    }
}

void IdealWorkers::ended(int worker) {
    Seat& one = seat(worker);
    const double took_s = cluster_.queue().now() - one.begun_s;
    if (took_s <= 0) {
        endless_ = true;
        return;
    }
    const double change = 1 / took_s - one.rate;
    one.rate += change;
    card(node(worker)).rate += change;
    rate_ += change;
    cluster_.queue().after(took_s * (stretch() - 1), [this, worker] {
        seat(worker).ended_s = cluster_.queue().now();
        ++seat(worker).iterations;
        iterate(worker);
    });
}

std::optional<double> IdealWorkers::samples_s() const {
    double sum = 0;
    for (const Seat& one : seats_) {
        if (one.iterations > 0) {
            sum += static_cast<double>(one.iterations * spec_.setting.batch) / one.ended_s;
        }
    }
    return endless_ || sum <= 0 ? std::nullopt : std::optional(sum);
}

}  // namespace cohort
