#pragma once

#include <string>

namespace cohort {

/// What the launcher (mpirun, srun or nothing) and the machine say about this process. This
/// is the only place of the library that reads environment variables.
struct LaunchEnv {
    int world_size = 1;  ///< number of ranks; 1 without a launcher
    int world_rank = 0;
    int local_rank = 0;    ///< rank among those on this host
    std::string launcher;  ///< "none", "mpirun", "srun"
    std::string host;      ///< host name
    int cores = 1;         ///< cores this process may run on (affinity mask)
    bool stderr_is_terminal = false;
    bool stdout_is_terminal = false;
};

[[nodiscard]] LaunchEnv read_launch_env();

}  // namespace cohort
