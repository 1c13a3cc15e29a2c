#pragma once

#include <string>
#include <vector>

#include "cohort/data/sample_source.hpp"
#include "cohort/model/graph.hpp"
#include "core/system/launch_env.hpp"
#include "jobs/cli/command_line.hpp"

namespace cohort {

/// Lines of the start-up header and of `cohort info`.
[[nodiscard]] std::vector<std::string> build_facts();
[[nodiscard]] std::vector<std::string> machine_facts(const LaunchEnv& env);
[[nodiscard]] std::string model_facts(const Graph& graph);
/// @param group "train" or "test"
[[nodiscard]] std::string dataset_facts(const std::string& group, const SampleSetInfo& info);
/// `  batch = 128  (command line)` for each option that has a value.
[[nodiscard]] std::vector<std::string> option_facts(const std::vector<EffectiveOption>& options);

}  // namespace cohort
