#include "core/system/launch_env.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

int int_variable(const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::atoi(text) : otherwise;
}

bool is_number(const char* text) {
    const std::string_view digits = text != nullptr ? text : "";
    return !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
}

/// By default Slurm starts tasks without PMIx; the mpirun of another MPI sets PMI_SIZE.
int separate_tasks() {
    const int step_tasks =
        is_number(std::getenv("SLURM_STEP_ID")) && std::getenv("PMIX_RANK") == nullptr
            ? int_variable("SLURM_STEP_NUM_TASKS", 1)
            : 1;
    const int tasks = std::max(step_tasks, int_variable("PMI_SIZE", 1));
    return tasks > 1 ? tasks : 0;
}

/// Follows the XDG base directory specification: a path that is not absolute is ignored.
std::string cache_folder() {
    const char* cache = std::getenv("XDG_CACHE_HOME");
    if (cache != nullptr && *cache == '/') {
        return std::string(cache) + "/cohort";
    }
    const char* home = std::getenv("HOME");
    return home != nullptr && *home == '/' ? std::string(home) + "/.cache/cohort" : "";
}

/// @param process  0: this one
int allowed_cores(pid_t process) {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(process, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

std::optional<unsigned> sudo_user() {
    const char* user = std::getenv("SUDO_UID");
    unsigned id = 0;
    const std::string_view text = user != nullptr && is_number(user) ? user : "";
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    return text.empty() || error != std::errc() ? std::nullopt : std::optional(id);
}

std::optional<CpuLevelVariable> cpu_level_variable() {
    for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
        const char* level = std::getenv(name);
        if (level != nullptr && *level != '\0') {
            return CpuLevelVariable{name, level};
        }
    }
    return std::nullopt;
}

LaunchEnv read_launch_env() {
    LaunchEnv env;
    if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) {
        env.launcher = "mpirun";
        env.world_size = int_variable("OMPI_COMM_WORLD_SIZE", 1);
        env.world_rank = int_variable("OMPI_COMM_WORLD_RANK", 0);
        env.local_rank = int_variable("OMPI_COMM_WORLD_LOCAL_RANK", 0);
        env.host_ranks = int_variable("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
    } else if (std::getenv("SLURM_PROCID") != nullptr && std::getenv("PMIX_RANK") != nullptr) {
        env.launcher = "srun";
        env.world_size = int_variable("SLURM_NTASKS", 1);
        env.world_rank = int_variable("SLURM_PROCID", 0);
        env.local_rank = int_variable("SLURM_LOCALID", 0);
    } else {
        env.launcher = "none";
        env.separate_tasks = separate_tasks();
    }
    std::array<char, 256> host{};
    if (gethostname(host.data(), host.size() - 1) == 0) {
        env.host = host.data();
    }
    env.cores = allowed_cores(0);
    env.launcher_cores = allowed_cores(getppid());
    env.stderr_is_terminal = isatty(STDERR_FILENO) == 1;
    env.stdout_is_terminal = isatty(STDOUT_FILENO) == 1;
    env.colours = std::getenv("NO_COLOR") == nullptr;
    env.by_script = std::getenv("COHORT_LAUNCH") != nullptr;
    env.cache_folder = cache_folder();
    return env;
}

void check_one_world(const LaunchEnv& env) {
    if (env.separate_tasks > 0) {
        fail<UsageError>({.where = "launcher",
                          .what = "each task takes itself for the whole job",
                          .expected = "one process, or ranks that Open MPI or PMIx joins",
                          .got = std::to_string(env.separate_tasks) + " separate tasks",
                          .hint = "srun --mpi=pmix, or Open MPI's mpirun"});
    }
}

}  // namespace cohort
