#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "cohort/sched/plan.hpp"

namespace cohort {

/// What a node has, per second.
struct NodeCapacity {
    double cores = 1;
    double rx_bytes_s = 0;  ///< of its network card, incoming
    double tx_bytes_s = 0;  ///< outgoing
};

/// Shares of a node's capacities that are taken; above 1: more is asked for than there is.
struct NodeUse {
    double cores = 0;
    double rx = 0;
    double tx = 0;

    auto fields() { return std::tie(cores, rx, tx); }
    [[nodiscard]] double largest() const noexcept { return std::max({cores, rx, tx}); }
};

/// A node with what runs on it beside the jobs that are looked at.
struct NodeRoom {
    NodeCapacity capacity;
    NodeUse used = {};
};

/// What a job with parameter servers asks of its nodes at its predicted rate. A worker pushes a
/// share of the gradient to every server in an iteration, and pulls a share of the parameters from
/// it; between two ranks of a node nothing goes over the network card.
struct JobDemand {
    struct Worker {
        int node = 0;
        double iterations_s = 0;  ///< iterations per second, by the timing model
        auto fields() { return std::tie(node, iterations_s); }
    };
    std::vector<Worker> workers;
    std::vector<double> shares = {};  ///< of the parameters, by server
    double push_bytes = 0;            ///< of a worker's iteration, to all servers together
    double pull_bytes = 0;
    double server_cores = 0;    ///< cores that all servers together keep busy
    double server_threads = 1;  ///< cores that a server can use at once
    double worker_cores = 0;    ///< cores that a worker keeps busy
    double worker_threads = 1;  ///< cores that a worker can use at once

    auto fields() {
        return std::tie(workers, shares, push_bytes, pull_bytes, server_cores, server_threads,
                        worker_cores, worker_threads);
    }
};

/// What a job's demand follows from, apart from its plan.
struct JobTraffic {
    std::vector<int> nodes;      ///< node by worker
    std::vector<double> shares;  ///< of the parameters, by server
    double parameter_bytes = 0;  ///< of a push, and of a pull
    double push_core_s = 0;      ///< core seconds of all servers for a push
    double update_core_s = 0;    ///< core seconds of all servers for an update
    double server_threads = 1;   ///< cores that a server can use at once
    double input_core_s = 0;     ///< core seconds of a worker's iteration
    double input_threads = 1;    ///< cores that it can use at once
};

/// The demand of a plan at the rate that the timing model gives (time_plan). Workers of a
/// synchronous plan all go at its pace; those of other plans at their own, scaled so that the
/// samples per second are those of the timing.
/// @param own_s  seconds of each worker's iteration, as time_plan has them
[[nodiscard]] JobDemand demand_of(const SyncPlan& plan, std::span<const double> own_s,
                                  std::span<const std::int64_t> batches,
                                  std::int64_t reference_batch, const JobTraffic& traffic);

}  // namespace cohort
