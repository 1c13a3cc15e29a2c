#pragma once

#include <vector>

#include "cohort/sim/fleet.hpp"
#include "sim/cluster/cluster.hpp"

namespace cohort {

/// How busy the nodes of a cluster are over time. What happened since the start is noted at equal
/// intervals; when there are too many notes every second one is dropped and the interval doubled.
class UseMeter {
public:
    /// @param cluster  outlives it
    UseMeter(VirtualCluster& cluster, int devices_per_node);

    /// So many devices more (+1) or fewer (-1) on each of these nodes are held by jobs from now on.
    void hold(const std::vector<int>& nodes, int change);
    /// Notes the use so far when the interval is over; to be called after each event.
    void look() {
        if (cluster_.queue().now() >= next_s_) {
            note();
        }
    }
    /// From the start until now.
    [[nodiscard]] std::vector<FleetUsePoint> points();

private:
    /// Since the start, [nodes].
    struct Note {
        double time_s = 0;
        std::vector<double> device_s;
        std::vector<double> core_s;
        std::vector<double> rx_bytes;
        std::vector<double> tx_bytes;
    };
    struct Held {
        int devices = 0;
        double since_s = 0;
        double device_s = 0;  ///< until since_s
    };

    void note();
    [[nodiscard]] Note now();

    VirtualCluster& cluster_;
    double devices_per_node_;
    std::vector<Held> held_;  ///< [nodes]
    std::vector<Note> notes_;
    double interval_s_ = 1;
    double next_s_ = 0;
};

}  // namespace cohort
