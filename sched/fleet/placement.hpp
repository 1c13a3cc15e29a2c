#pragma once

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "cohort/sched/fleet_rules.hpp"
#include "sched/fleet/demand.hpp"

namespace cohort {

/// A job and the nodes of its servers.
struct PlacedJob {
    JobDemand demand;
    std::vector<int> servers = {};  ///< node by server; empty: to be placed

    auto fields() { return std::tie(demand, servers); }
};

/// How good a placement is.
struct PlacementScore {
    double utilisation = 0;  ///< the largest over nodes and resources
    /// Sum over jobs: predicted share of an iteration that passes while gradients and parameters
    /// are on their way and servers work.
    double waits = 0;
    double crossing = 0;  ///< sum over nodes of the shares of cards that are taken
};

/// Places the servers of all jobs that have none; those of the others stay.
///
/// kWaits and kUtilisation: the largest servers first, each where the score is best; then moves of
/// a server and swaps of two until none helps; the same from the placements of kEven and kBeside;
/// the best of the three. So neither is ever worse than these two by its own measure. Ties: less
/// crossing traffic, then the lower node.
///
/// The wait of job j is the sum over its phases (push, pull, work of servers) of the time at its
/// slowest node, in shares of its iteration: u (1 + v) on a card of which the phase takes the share
/// u and other jobs the share v, since an activity that meets v others on the average goes on at
/// 1 / (1 + v) of the speed, and u max(1, U) on processors, which are not shared until U, what all
/// want, exceeds what there is.
/// Cost: O(servers * nodes * (jobs + jobs' nodes)) per round; at most kMostTrials trials.
/// Errors: std::logic_error for a node that does not exist, or capacities that are not above 0.
/// @param seed  of kRandom
void place_servers(std::span<const NodeRoom> nodes, std::span<PlacedJob> jobs, PlacementRule rule,
                   std::uint64_t seed = 0);

}  // namespace cohort
