#include "cohort/core/launch_env.hpp"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace cohort {
namespace {

int int_variable(const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::atoi(text) : otherwise;
}

int allowed_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

LaunchEnv read_launch_env() {
    LaunchEnv env;
    if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) {
        env.launcher = "mpirun";
        env.world_size = int_variable("OMPI_COMM_WORLD_SIZE", 1);
        env.world_rank = int_variable("OMPI_COMM_WORLD_RANK", 0);
        env.local_rank = int_variable("OMPI_COMM_WORLD_LOCAL_RANK", 0);
    } else if (std::getenv("SLURM_PROCID") != nullptr && std::getenv("PMIX_RANK") != nullptr) {
        env.launcher = "srun";
        env.world_size = int_variable("SLURM_NTASKS", 1);
        env.world_rank = int_variable("SLURM_PROCID", 0);
        env.local_rank = int_variable("SLURM_LOCALID", 0);
    } else {
        env.launcher = "none";
    }
    std::array<char, 256> host{};
    if (gethostname(host.data(), host.size() - 1) == 0) {
        env.host = host.data();
    }
    env.cores = allowed_cores();
    env.stderr_is_terminal = isatty(STDERR_FILENO) == 1;
    env.stdout_is_terminal = isatty(STDOUT_FILENO) == 1;
    return env;
}

}  // namespace cohort
