#include "core/system/launch_env.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "core/system/separate_tasks.hpp"
#include "support/core/child_process.hpp"

namespace cohort {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// Whether `holds` of what a process with only these launcher variables reads.
bool in_launch(const Variables& variables, const std::function<bool(const LaunchEnv&)>& holds) {
    return in_child([&] {
        for (const char* name :
             {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
              "OMPI_VERSION", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_ID",
              "SLURM_STEP_NUM_TASKS", "PMIX_RANK", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE",
              "TORCHELASTIC_RUN_ID"}) {
            unsetenv(name);
        }
        for (const auto& [name, value] : variables) {
            setenv(name.c_str(), value.c_str(), 1);
        }
        return holds(read_launch_env());
    });
}

bool is_one_world(const LaunchEnv& env) {
    try {
        check_one_world(env);
    } catch (const UsageError& error) {
        return std::string(error.what()).find("srun --mpi=pmix") == std::string::npos;
    }
    return true;
}

bool is_refused(const LaunchEnv& env) {
    return !is_one_world(env);
}

TEST(LaunchEnv, WithoutALauncherThereIsOneRank) {
    EXPECT_TRUE(in_launch({}, [](const LaunchEnv& env) {
        return env.world_size == 1 && env.world_rank == 0 && env.launcher == "none" &&
               !env.host.empty() && env.cores >= 1 && is_one_world(env);
    }));
}

TEST(LaunchEnv, MpirunNamesTheRank) {
    EXPECT_TRUE(in_launch({{"OMPI_COMM_WORLD_SIZE", "8"},
                           {"OMPI_COMM_WORLD_RANK", "5"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"SLURM_STEP_ID", "0"},
                           {"SLURM_STEP_NUM_TASKS", "2"}},
                          [](const LaunchEnv& env) {
                              return env.world_size == 8 && env.world_rank == 5 &&
                                     env.local_rank == 1 && env.launcher == "mpirun" &&
                                     is_one_world(env);
                          }));
}

TEST(LaunchEnv, SrunWithPmixNamesTheRank) {
    EXPECT_TRUE(in_launch({{"SLURM_PROCID", "3"},
                           {"SLURM_NTASKS", "4"},
                           {"SLURM_LOCALID", "1"},
                           {"SLURM_STEP_ID", "7"},
                           {"SLURM_STEP_NUM_TASKS", "4"},
                           {"PMIX_RANK", "3"}},
                          [](const LaunchEnv& env) {
                              return env.world_size == 4 && env.world_rank == 3 &&
                                     env.local_rank == 1 && env.launcher == "srun" &&
                                     is_one_world(env);
                          }));
}

TEST(LaunchEnv, SeveralTasksThatNobodyJoinsAreRefused) {
    EXPECT_TRUE(
        in_launch({{"SLURM_PROCID", "3"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}},
                  is_refused));
    EXPECT_TRUE(in_launch({{"PMI_SIZE", "2"}}, is_refused));
    EXPECT_TRUE(in_launch({{"MV2_COMM_WORLD_SIZE", "2"}}, is_refused));
    EXPECT_TRUE(in_launch({{"PMIX_RANK", "0"}}, is_refused));  // prterun
    EXPECT_TRUE(
        in_launch({{"WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "none"}},
                  [](const LaunchEnv& env) { return is_refused(env) && env.separate_tasks == 2; }));
}

/// What is said when MPI's world has `size` ranks; empty: nothing.
std::string said_of(const LaunchEnv& env, int size) {
    try {
        check_one_world(env, size, "Open MPI v4.1.4");
    } catch (const SeparateTasksError& error) {
        return error.what();
    }
    return "";
}

TEST(LaunchEnv, MpisWorldIsTheLaunchers) {
    const Variables mpirun{{"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_VERSION", "5.0.11"}};
    EXPECT_TRUE(in_launch(mpirun, [](const LaunchEnv& env) {
        const std::string text = said_of(env, 1);
        return said_of(env, 3).empty() && !said_of(env, 2).empty() &&
               text.find("Open MPI v4.1.4") != std::string::npos &&
               text.find("Open MPI 5.0.11") != std::string::npos;
    }));
    EXPECT_TRUE(in_launch({}, [](const LaunchEnv& env) { return said_of(env, 1).empty(); }));
    const Variables srun{{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"PMIX_RANK", "1"}};
    EXPECT_TRUE(in_launch(srun, [](const LaunchEnv& env) {
        return said_of(env, 2).empty() && !said_of(env, 1).empty() &&
               said_of(env, 6).empty();  // a heterogeneous step
    }));
}

TEST(LaunchEnv, OneTaskAndBatchScriptsAreLeftAlone) {
    EXPECT_TRUE(in_launch({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}, is_one_world));
    EXPECT_TRUE(
        in_launch({{"SLURM_STEP_ID", "batch"}, {"SLURM_STEP_NUM_TASKS", "4"}}, is_one_world));
    EXPECT_TRUE(in_launch({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}, is_one_world));
    EXPECT_TRUE(in_launch({{"PMI_SIZE", "1"}}, is_one_world));
    EXPECT_TRUE(in_launch({{"WORLD_SIZE", "4"}}, is_one_world));
}

}  // namespace
}  // namespace cohort
