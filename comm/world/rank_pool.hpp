#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <vector>

#include "cohort/comm/rank_pool.hpp"
#include "comm/base/communicators.hpp"
#include "comm/base/node_processes.hpp"
#include "comm/transfer/card_share.hpp"
#include "comm/transfer/node_memory.hpp"
#include "comm/world/startup.hpp"
#include "core/system/launch_env.hpp"

namespace cohort {

/// On the thread to which MPI belongs: the pool's, or the communication thread of a World.
struct RankPool::Impl {
    /// A message that may not have left; MPI reads its bytes until then.
    struct Posted {
        std::vector<std::byte> body;
        MPI_Request request = MPI_REQUEST_NULL;
    };

    /// Begins to send. @return  valid until it has left and post() is called again
    Posted& post(int to, std::vector<std::byte> body);
    /// A message that has arrived; none has.
    [[nodiscard]] std::optional<Message> probe() const;

    LaunchEnv env = read_launch_env();
    Communicators comms;
    StartupRoster roster;
    std::optional<NodeProcesses> processes;
    std::list<Posted> posted;
    NodeMemory card_users;
    CardShare card;  ///< of this rank
    bool open = false;
};

}  // namespace cohort
