#pragma once

#include <string>

#include "cohort/core/error.hpp"
#include "core/system/launch_env.hpp"

namespace cohort {

/// Each of several processes that were started together would take itself for the whole world
/// (check_one_world).
struct SeparateTasksError : UsageError {
    using UsageError::UsageError;
};

/// As check_one_world(env), once MPI is started. @param size  of MPI's world  @param library MPI's,
/// with its version. Errors: SeparateTasksError.
void check_one_world(const LaunchEnv& env, int size, const std::string& library);

}  // namespace cohort
