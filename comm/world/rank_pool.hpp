#pragma once

#include "cohort/comm/rank_pool.hpp"
#include "comm/base/communicators.hpp"
#include "comm/world/startup.hpp"
#include "core/system/launch_env.hpp"

namespace cohort {

struct RankPool::Impl {
    LaunchEnv env = read_launch_env();
    Communicators comms;
    StartupRoster roster;
    bool open = false;
};

}  // namespace cohort
