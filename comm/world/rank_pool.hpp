#pragma once

#include <optional>

#include "cohort/comm/rank_pool.hpp"
#include "comm/base/communicators.hpp"
#include "comm/base/node_processes.hpp"
#include "comm/world/startup.hpp"
#include "core/system/launch_env.hpp"

namespace cohort {

struct RankPool::Impl {
    LaunchEnv env = read_launch_env();
    Communicators comms;
    StartupRoster roster;
    std::optional<NodeProcesses> processes;
    bool open = false;
};

}  // namespace cohort
