#pragma once

#include <algorithm>
#include <vector>

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
    };
    std::vector<Worker> workers;
    std::vector<double> shares = {};  ///< of the parameters, by server
    double push_bytes = 0;            ///< of a worker's iteration, to all servers together
    double pull_bytes = 0;
    double server_cores = 0;    ///< cores that all servers together keep busy
    double server_threads = 1;  ///< cores that a server can use at once
    double worker_cores = 0;    ///< cores that a worker keeps busy
    double worker_threads = 1;  ///< cores that a worker can use at once
};

}  // namespace cohort
