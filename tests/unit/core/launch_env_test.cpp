#include "core/system/launch_env.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "support/core/child_process.hpp"

namespace cohort {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// Whether `holds` of what a process with only these launcher variables reads.
bool in_launch(const Variables& variables, const std::function<bool(const LaunchEnv&)>& holds) {
    return in_child([&] {
        for (const char* name :
             {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
              "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_ID",
              "SLURM_STEP_NUM_TASKS", "PMIX_RANK", "PMI_SIZE"}) {
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
}

TEST(LaunchEnv, OneTaskAndBatchScriptsAreLeftAlone) {
    EXPECT_TRUE(in_launch({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}, is_one_world));
    EXPECT_TRUE(
        in_launch({{"SLURM_STEP_ID", "batch"}, {"SLURM_STEP_NUM_TASKS", "4"}}, is_one_world));
    EXPECT_TRUE(in_launch({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}, is_one_world));
    EXPECT_TRUE(in_launch({{"PMI_SIZE", "1"}}, is_one_world));
}

}  // namespace
}  // namespace cohort
