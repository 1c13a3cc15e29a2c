#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cohort/sim/fleet.hpp"

namespace cohort {

/// What a node has for jobs that are to be placed.
struct FleetNode {
    int free_devices = 0;
    int servers = 0;  ///< of jobs that run
};

/// Nodes of a job's workers: as few as possible, and of those that do the emptiest, the first ones
/// on ties. Worker i comes before worker i + 1 in order of nodes. Pure.
/// @param workers  at most all free devices
[[nodiscard]] std::vector<int> place_workers(int workers, std::span<const FleetNode> nodes);

/// A job whose servers are to be placed.
struct ServersToPlace {
    int servers = 0;
    std::span<const int> worker_nodes;  ///< from place_workers
    std::uint64_t seed = 0;
};
/// Nodes of a job's servers. Pure.
[[nodiscard]] std::vector<int> place_servers(ServerPlacement placement, const ServersToPlace& job,
                                             std::span<const FleetNode> nodes);

}  // namespace cohort
