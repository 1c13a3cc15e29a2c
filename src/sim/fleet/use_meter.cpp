#include "sim/fleet/use_meter.hpp"

#include <cstddef>
#include <utility>

namespace cohort {

UseMeter::UseMeter(VirtualCluster& cluster, int devices_per_node)
    : cluster_(cluster),
      devices_per_node_(devices_per_node),
      held_(static_cast<std::size_t>(cluster.nodes())) {
}

void UseMeter::hold(const std::vector<int>& nodes, int change) {
    const double now_s = cluster_.queue().now();
    for (const int node : nodes) {
        Held& held = held_[static_cast<std::size_t>(node)];
        held.device_s += held.devices * (now_s - held.since_s);
        held.since_s = now_s;
        held.devices += change;
    }
}

UseMeter::Note UseMeter::now() {
    Note note{.time_s = cluster_.queue().now()};
    for (int node = 0; node < cluster_.nodes(); ++node) {
        const VirtualCluster::NodeState use = cluster_.node(node);
        const Held& held = held_[static_cast<std::size_t>(node)];
        note.device_s.push_back(held.device_s + held.devices * (note.time_s - held.since_s));
        note.core_s.push_back(use.cpu_core_s);
        note.rx_bytes.push_back(use.rx_bytes);
        note.tx_bytes.push_back(use.tx_bytes);
    }
    return note;
}

void UseMeter::note() {
    if (notes_.size() == FleetResult::kUsePoints) {
        std::vector<Note> kept;
        for (std::size_t i = 0; i < notes_.size(); i += 2) {
            kept.push_back(std::move(notes_[i]));
        }
        notes_ = std::move(kept);
        interval_s_ *= 2;
    }
    notes_.push_back(now());
    while (next_s_ <= cluster_.queue().now()) {
        next_s_ += interval_s_;
    }
}

std::vector<FleetUsePoint> UseMeter::points() {
    notes_.push_back(now());
    const ClusterProfile& profile = cluster_.profile();
    std::vector<FleetUsePoint> points;
    for (std::size_t i = 1; i < notes_.size(); ++i) {
        const Note& from = notes_[i - 1];
        const Note& to = notes_[i];
        const double seconds = to.time_s - from.time_s;
        if (seconds <= 0) {
            continue;
        }
        FleetUsePoint point{.time_s = to.time_s};
        for (std::size_t node = 0; node < held_.size(); ++node) {
            const auto share = [&](const std::vector<double> Note::*sums, double each) {
                return ((to.*sums)[node] - (from.*sums)[node]) / (seconds * each);
            };
            point.devices.push_back(share(&Note::device_s, devices_per_node_));
            point.cores.push_back(share(&Note::core_s, profile.cores));
            point.rx.push_back(share(&Note::rx_bytes, profile.nic_bytes_per_s));
            point.tx.push_back(share(&Note::tx_bytes, profile.nic_bytes_per_s));
        }
        points.push_back(std::move(point));
    }
    notes_.pop_back();
    return points;
}

}  // namespace cohort
