#pragma once

#include <deque>

#include "cohort/sim/cluster.hpp"
#include "cohort/sim/simulation.hpp"

namespace cohort {

/// A server of a virtual job: what it is asked to do waits in line, one thing at a time.
class ServerLine {
public:
    /// @param threads  cores that it can use at once
    ServerLine(VirtualCluster& cluster, int node, double threads)
        : cluster_(cluster), threads_(threads), use_{.node = node} {}
    ServerLine(const ServerLine&) = delete;
    ServerLine& operator=(const ServerLine&) = delete;

    /// @param done called when it is done, in the order of the calls
    void add(double core_s, VirtualCluster::Action done);
    void received(double bytes) { use_.rx_bytes += bytes; }
    void sent(double bytes) { use_.tx_bytes += bytes; }
    /// Gives up all that waits.
    void clear();
    [[nodiscard]] bool idle() const noexcept { return work_ == 0; }
    [[nodiscard]] const ServerUse& use() const noexcept { return use_; }

private:
    struct Order {
        double core_s = 0;
        VirtualCluster::Action done;
    };
    void begin();
    void done();

    VirtualCluster& cluster_;
    double threads_;
    ServerUse use_;
    std::deque<Order> orders_;  ///< the first one is in work
    VirtualCluster::WorkId work_ = 0;
    double begun_s_ = 0;
};

}  // namespace cohort
