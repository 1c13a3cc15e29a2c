#include "sim/job/ideal_workers.hpp"

#include <algorithm>
#include <cstdint>
#include <map>

namespace cohort {
namespace {

template <class Send>
double duration_s(const VirtualCluster& kind, const Send& send) {
    EventQueue queue;
    VirtualCluster cluster(queue, kind.profile(), kind.nodes(), nullptr);
    cluster.start();
    bool over = false;
    send(cluster, [&over] { over = true; });
    while (!over && queue.step()) {
    }
    return queue.now();
}

/// Workers for whom nobody waits.
class IdealWorkers {
public:
    /// @param cluster, spec outlive it
    IdealWorkers(VirtualCluster& cluster, const JobSpec& spec)
        : cluster_(cluster), spec_(spec), cards_(static_cast<std::size_t>(cluster.nodes())) {
        for (const int node : spec.server_nodes) {
            if (card(node).served == 0) {
                server_nodes_.push_back(node);
            }
            card(node).served += 1.0 / spec.servers();
        }
        std::map<double, Alone> alone;  // nodes differ in nothing but what they serve
        for (const int node : spec.worker_nodes) {
            const auto [found, fresh] = alone.try_emplace(card(node).served);
            if (fresh) {
                found->second = alone_on(node);
            }
            seats_.push_back({.place = cluster.add_place(node), .alone = found->second});
        }
        for (int node = 0; node < cluster.nodes(); ++node) {
            card(node).place = cluster.add_place(node);
        }
    }

    void begin() {
        for (int worker = 0; worker < spec_.workers(); ++worker) {
            iterate(worker);
        }
    }

    [[nodiscard]] std::optional<double> samples_s() const {
        double sum = 0;
        for (const Seat& one : seats_) {
            if (one.iterations > 0) {
                sum += static_cast<double>(one.iterations * spec_.setting.batch) / one.ended_s;
            }
        }
        return endless_ || sum <= 0 ? std::nullopt : std::optional(sum);
    }

private:
    /// What transfers take on a healthy cluster that nobody else uses.
    struct Alone {
        double pull_s = 0;      ///< with rings 0
        double exchange_s = 0;  ///< push or all-reduce
    };
    struct Seat {
        VirtualCluster::PlaceId place = 0;
        Alone alone;
        double begun_s = 0;
        double ended_s = 0;
        double rate = 0;  ///< of its last iteration alone, 1 / seconds; 0: there is none
        std::int64_t iterations = 0;
        int parts = 0;  ///< of the iteration that are not over: computing, exchanging
    };
    /// A node's card.
    struct Card {
        VirtualCluster::PlaceId place = 0;
        double served = 0;  ///< share of the parameters that servers on the node have
        double rate = 0;    ///< of the workers on the node
    };

    [[nodiscard]] Alone alone_on(int node) const {
        const double bytes = spec_.wire_parameter_bytes();
        Alone alone;
        if (!spec_.server_nodes.empty()) {
            alone.pull_s = duration_s(cluster_, [&](VirtualCluster& healthy, auto over) {
                healthy.gather(spec_.server_nodes, node, bytes, over);
            });
            alone.exchange_s = duration_s(cluster_, [&](VirtualCluster& healthy, auto over) {
                healthy.scatter(node, spec_.server_nodes, bytes, over);
            });
        } else if (spec_.workers() > 1) {
            alone.exchange_s = duration_s(cluster_, [&](VirtualCluster& healthy, auto over) {
                healthy.all_reduce(spec_.worker_nodes, bytes, over);
            });
        }
        return alone;
    }

    [[nodiscard]] Seat& seat(int worker) { return seats_[static_cast<std::size_t>(worker)]; }
    [[nodiscard]] int node(int worker) const {
        return spec_.worker_nodes[static_cast<std::size_t>(worker)];
    }
    [[nodiscard]] Card& card(int node) { return cards_[static_cast<std::size_t>(node)]; }
    /// A transfer at its own card's share, or at that of a server's card if that is what holds it
    /// up.
    [[nodiscard]] double slowed(double alone_s, double own_share) const {
        double factor = 1 / own_share;
        for (const int node : server_nodes_) {
            const Card& one = cards_[static_cast<std::size_t>(node)];
            const Shares shares = cluster_.shares(one.place);
            factor = std::max(factor, one.served / std::min(shares.tx, shares.rx));
        }
        return alone_s * factor;
    }

    /// How many times what a card carries. Every iteration moves the parameters in both directions
    /// between its worker and the servers of other nodes.
    [[nodiscard]] double wanted(const Card& card) const {
        const Shares shares = cluster_.shares(card.place);
        return spec_.wire_parameter_bytes() *
               ((rate_ - card.rate) * card.served + card.rate * (1 - card.served)) /
               (cluster_.profile().nic_bytes_per_s * std::min(shares.tx, shares.rx));
    }

    /// What the iterations of a node's workers are longer by; in a ring each card is its own
    /// workers'.
    [[nodiscard]] double stretch(int node) const {
        if (server_nodes_.empty()) {
            return 1;
        }
        double most = std::max(1.0, wanted(cards_[static_cast<std::size_t>(node)]));
        for (const int other : server_nodes_) {
            most = std::max(most, wanted(cards_[static_cast<std::size_t>(other)]));
        }
        return most;
    }

    void iterate(int worker) {
        Seat& one = seat(worker);
        one.begun_s = cluster_.queue().now();
        if (spec_.server_nodes.empty()) {
            compute(worker);
        } else {
            cluster_.queue().after(slowed(one.alone.pull_s, cluster_.shares(one.place).rx),
                                   [this, worker] { compute(worker); });
        }
    }

    /// The exchange runs beside backward, as in the job.
    void compute(int worker) {
        seat(worker).parts = 2;
        // Nobody waits here, so each takes row after row of what the workers have in common.
        cluster_.begin_iteration(seat(worker).place, seat(worker).iterations);
        cluster_.compute(
            seat(worker).place, spec_.cost_of(spec_.setting.batch),
            [this, worker] {
                const Shares shares = cluster_.shares(seat(worker).place);
                const double share =
                    spec_.server_nodes.empty() ? std::min(shares.tx, shares.rx) : shares.tx;
                cluster_.queue().after(slowed(seat(worker).alone.exchange_s, share),
                                       [this, worker] { part_done(worker); });
            },
            [this, worker] { part_done(worker); });
    }

    void part_done(int worker) {
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

    void ended(int worker) {
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
        const auto over = [this, worker] {
            seat(worker).ended_s = cluster_.queue().now();
            ++seat(worker).iterations;
            iterate(worker);
        };
        const double factor = stretch(node(worker));
        if (factor > 1) {
            cluster_.queue().after(took_s * (factor - 1), over);
        } else {
            over();
        }
    }

    VirtualCluster& cluster_;
    const JobSpec& spec_;
    std::vector<Seat> seats_;
    std::vector<Card> cards_;        ///< by node
    std::vector<int> server_nodes_;  ///< each once
    double rate_ = 0;                ///< of all workers
    bool endless_ = false;           ///< an iteration took no time
};

}  // namespace

std::optional<double> ideal_samples_s(VirtualCluster& cluster, const JobSpec& spec, double seconds,
                                      const std::function<bool()>& stop) {
    constexpr std::uint64_t kLook = 1000;
    IdealWorkers workers(cluster, spec);
    cluster.start();
    workers.begin();
    EventQueue& queue = cluster.queue();
    while (queue.now() < seconds && queue.step()) {
        if (queue.events() % kLook == 0 && stop()) {
            return std::nullopt;
        }
    }
    return workers.samples_s();
}

}  // namespace cohort
