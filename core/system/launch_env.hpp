#pragma once

#include <optional>
#include <string>

namespace cohort {

/// Facts about this process from the launcher (mpirun, srun or none) and the machine. This is the
/// only place of the library that reads environment variables.
struct LaunchEnv {
    int world_size = 1;  ///< number of ranks; 1 without a launcher
    int world_rank = 0;
    int local_rank = 0;    ///< rank among those on this host
    int host_ranks = 1;    ///< ranks of this host; 1 where the launcher does not say
    std::string launcher;  ///< "none", "mpirun", "srun"
    /// Tasks that a launcher started and this program cannot join into one world; 0 when it can.
    int separate_tasks = 0;
    std::string host;        ///< host name
    int cores = 1;           ///< cores this process may run on (affinity mask)
    int launcher_cores = 1;  ///< cores the process may run on that started this one
    bool stderr_is_terminal = false;
    bool stdout_is_terminal = false;
    bool colours = true;     ///< false: the user wants none ($NO_COLOR)
    bool by_script = false;  ///< jobs/launch.sh has started the job ($COHORT_LAUNCH)
    /// Folder for results that can be computed again: $XDG_CACHE_HOME/cohort, else ~/.cache/cohort;
    /// empty when there is neither. It need not exist.
    std::string cache_folder;
};

[[nodiscard]] LaunchEnv read_launch_env();

/// A variable that limits oneDNN to a level of instructions. It reads two, in this order.
struct CpuLevelVariable {
    const char* name = nullptr;
    std::string level;
};
/// The one that counts; none where neither is set.
[[nodiscard]] std::optional<CpuLevelVariable> cpu_level_variable();

/// The user id of the one who called sudo ($SUDO_UID); none without sudo.
[[nodiscard]] std::optional<unsigned> sudo_user();

/// Refuses to run when each of several tasks would take itself for the whole world.
/// Errors: UsageError that says how to start instead.
void check_one_world(const LaunchEnv& env);

}  // namespace cohort
