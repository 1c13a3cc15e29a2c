#pragma once

#include <string>
#include <vector>

#include "cohort/comm/rank_map.hpp"
#include "cohort/data/sample_source.hpp"
#include "cohort/model/graph.hpp"
#include "cohort/train/events.hpp"
#include "core/system/launch_env.hpp"
#include "jobs/cli/command_line.hpp"

namespace cohort {

/// Lines of the start-up header, of `cohort info`, and of the end of a run.
/// How the program was built, with its libraries and GPUs; also `cohort --version`.
[[nodiscard]] std::vector<std::string> build_facts();
[[nodiscard]] std::vector<std::string> machine_facts(const LaunchEnv& env);
[[nodiscard]] std::string model_facts(const Graph& graph);
/// @param group "train" or "test"
[[nodiscard]] std::string dataset_facts(const std::string& group, const SampleSetInfo& info);
/// What became of the gradients of all workers; there was one at least.
[[nodiscard]] std::string gradients_fact(const WorkerReport& all);
/// What to do when mpirun has bound the ranks of this host to fewer cores than there are ranks,
/// although it could use others; empty: it has not.
[[nodiscard]] std::string binding_advice(const LaunchEnv& env, const RankMap& map);
/// Logs the start-up header: build, machine, these facts, and the options that were given.
void log_header(const CommandContext& context, const std::vector<std::string>& facts);

}  // namespace cohort
