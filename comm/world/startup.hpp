#pragma once

#include <string>
#include <vector>

#include "cohort/comm/rank_map.hpp"
#include "cohort/comm/world.hpp"
#include "comm/base/communicators.hpp"
#include "core/system/launch_env.hpp"

namespace cohort {

/// What the ranks learn of each other at the start.
struct StartupRoster {
    RankMap map;
    std::vector<int> same_pids;  ///< others of this node whose process numbers mean the same here
    /// By node: numeric addresses that no other node has; none of the own node.
    std::vector<std::vector<std::string>> addresses;
    int own_rank = 0;
    int tag_limit = 32767;
};

/// Starts MPI with MPI_THREAD_MULTIPLE. False where MPI had been started in this process before, as
/// mpi4py does: then it stays as it is. Only one thread of this library at a time calls MPI: the
/// calling one, until another takes its place.
/// Errors: PeerError; UsageError when MPI does not join the processes that a launcher started.
[[nodiscard]] bool start_mpi(const LaunchEnv& env);
/// Collective over `comms.world`: makes the other communicators and the map, and checks that all
/// ranks have the same usable options. Errors: UsageError, on all ranks alike; PeerError.
/// @param first_rank  RankInfo::first_rank of this process
[[nodiscard]] StartupRoster meet(const WorldOptions& options, const LaunchEnv& env,
                                 Communicators& comms, int first_rank = -1);
/// A roster of this process only. Errors: UsageError.
[[nodiscard]] StartupRoster alone(const WorldOptions& options, const LaunchEnv& env);

}  // namespace cohort
