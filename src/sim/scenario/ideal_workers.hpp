#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/job/virtual_job.hpp"

namespace cohort {

/// A job's workers if nobody waited for anybody: each computes batch after batch under the
/// cluster's scenario, and an exchange takes what it takes when nobody else sends; when all
/// together want more of a network card than it carries, those who use it are slower by that
/// factor. Servers answer at once. An upper bound of what modes that exchange once per batch can
/// reach; docs/simulate.md defines it.
class IdealWorkers {
public:
    /// @param cluster, spec outlive it
    IdealWorkers(VirtualCluster& cluster, const JobSpec& spec);

    void begin();
    /// Of all: each one's samples over the time until the end of its last iteration. None: nobody
    /// has ended one, or one took no time.
    [[nodiscard]] std::optional<double> samples_s() const;

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

    [[nodiscard]] Alone alone_on(int node) const;
    [[nodiscard]] Seat& seat(int worker) { return seats_[static_cast<std::size_t>(worker)]; }
    [[nodiscard]] int node(int worker) const {
        return spec_.worker_nodes[static_cast<std::size_t>(worker)];
    }
    [[nodiscard]] Card& card(int node) { return cards_[static_cast<std::size_t>(node)]; }
    [[nodiscard]] double slowed(double alone_s, double own_share) const;
    [[nodiscard]] double wanted(const Card& card) const;
    [[nodiscard]] double stretch(int node) const;
    void iterate(int worker);
    void compute(int worker);
    void part_done(int worker);
    void ended(int worker);

    VirtualCluster& cluster_;
    const JobSpec& spec_;
    std::vector<Seat> seats_;
    std::vector<Card> cards_;        ///< by node
    std::vector<int> server_nodes_;  ///< each once
    double rate_ = 0;                ///< of all workers
    bool endless_ = false;           ///< an iteration took no time
};

}  // namespace cohort
