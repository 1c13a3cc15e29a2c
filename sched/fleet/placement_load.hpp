#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sched/fleet/placement.hpp"

namespace cohort {

/// The load of nodes under a placement that changes server by server: a move changes what two
/// nodes carry, and the waits of the jobs that use them.
class PlacementLoad {
public:
    static constexpr int kNowhere = -1;  ///< of a server that has no node yet

    /// What one job takes of a node: shares of the node's capacities.
    struct Load {
        double push_in = 0;
        double push_out = 0;
        double pull_in = 0;
        double pull_out = 0;
        double input = 0;    ///< of processors, by workers
        double serving = 0;  ///< of processors, by servers
        bool any = false;    ///< the job has a worker or had a server here
    };

    /// Servers of jobs without nodes are nowhere.
    PlacementLoad(std::span<const NodeRoom> nodes, std::span<const PlacedJob> jobs);

    void move(std::size_t job, std::size_t server, int node);
    [[nodiscard]] int node_of(std::size_t job, std::size_t server) const {
        return jobs_[job].servers[server];
    }
    [[nodiscard]] const std::vector<int>& servers(std::size_t job) const {
        return jobs_[job].servers;
    }
    [[nodiscard]] const Load& load(std::size_t job, std::size_t node) const {
        return jobs_[job].loads[node];
    }
    [[nodiscard]] const std::vector<NodeUse>& nodes() const noexcept { return use_; }
    [[nodiscard]] PlacementScore score() const;
    /// Sum of squares of all utilisations.
    [[nodiscard]] double squares() const;

private:
    struct Job {
        const JobDemand* demand = nullptr;
        std::vector<Load> loads;        ///< by node
        std::vector<double> pushing;    ///< iterations per second of the node's workers
        double pushing_all = 0;         ///< sum of them
        std::vector<int> worker_nodes;  ///< each once
        std::vector<int> servers;
        double waits = 0;
    };

    void add(Job& job, int node, const Load& change);
    void count(Job& job, std::size_t server, int node, double sign);
    void refresh(int first, int second);
    [[nodiscard]] double waits_of(const Job& job) const;

    std::vector<NodeCapacity> capacities_;
    std::vector<NodeUse> use_;
    std::vector<Job> jobs_;
};

}  // namespace cohort
