#include "core/system/launch_env.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "core/system/separate_tasks.hpp"

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

/// A way to start processes that this program's MPI does not join, and the variable in which it
/// tells how many there are.
struct ForeignLauncher {
    const char* size;
    const char* mark;  ///< set by it and by no other
    const char* name;
};
constexpr std::array<ForeignLauncher, 3> kForeign{{
    {"PMI_SIZE", "PMI_SIZE", "the mpirun of another MPI"},
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "the mpirun of MVAPICH"},
    {"WORLD_SIZE", "TORCHELASTIC_RUN_ID", "torchrun"},
}};

struct SeparateTasks {
    int number = 0;  ///< 0: there are none
    std::string of;
};

/// By default Slurm starts tasks without PMIx. PRRTE's prterun does not tell how many there are.
SeparateTasks separate_tasks() {
    SeparateTasks most;
    const auto found = [&most](int tasks, const char* name) {
        if (tasks > 1 && tasks > most.number) {
            most = {.number = tasks, .of = name};
        }
    };
    const bool pmix = std::getenv("PMIX_RANK") != nullptr;
    if (is_number(std::getenv("SLURM_STEP_ID")) && !pmix) {
        found(int_variable("SLURM_STEP_NUM_TASKS", 1), "srun without PMIx");
    }
    for (const ForeignLauncher& launcher : kForeign) {
        if (std::getenv(launcher.mark) != nullptr) {
            found(int_variable(launcher.size, 1), launcher.name);
        }
    }
    if (pmix && std::getenv("SLURM_PROCID") == nullptr) {
        found(std::max(2, int_variable("PMIX_RANK", 0) + 1), "prterun");
    }
    return most;
}

/// Of what has started the ranks, for people.
std::string launcher_version(const LaunchEnv& env) {
    if (env.launcher == "srun") {
        return "srun";
    }
    const char* version = std::getenv("OMPI_VERSION");  // from 5 on
    return version != nullptr ? std::string("Open MPI ") + version : "Open MPI 4";
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
        env.separate_tasks = separate_tasks().number;
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
        fail<SeparateTasksError>({.where = "launcher",
                                  .what = "each task takes itself for the whole job",
                                  .expected = "one process, or ranks that Open MPI or PMIx joins",
                                  .got = std::to_string(env.separate_tasks) +
                                         " separate tasks of " + separate_tasks().of,
                                  .hint = "srun --mpi=pmix, or Open MPI's mpirun"});
    }
}

void check_one_world(const LaunchEnv& env, int size, const std::string& library) {
    // A heterogeneous step of srun has more ranks than each of its parts says.
    const bool joined = env.launcher == "srun" ? size > 1 || env.world_size == 1
                                               : size == env.world_size || env.launcher == "none";
    if (!joined) {
        fail<SeparateTasksError>(
            {.where = "launcher",
             .what = "each process takes itself for the whole job: the MPI library in "
                     "it is not the launcher's",
             .expected = std::to_string(env.world_size) + " ranks, as " + launcher_version(env) +
                         " started",
             .got = std::to_string(size) + " of " + library,
             .hint = "the mpirun of that library (PATH), or the library of that mpirun "
                     "(LD_LIBRARY_PATH); mpirun --version"});
    }
}

}  // namespace cohort
