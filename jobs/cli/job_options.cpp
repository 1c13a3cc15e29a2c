#include "jobs/cli/job_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/report/sweep_results.hpp"
#include "cohort/sim/simulation.hpp"

namespace cohort {

void check_momentum(const CommandContext& context, const LearningOptions& options,
                    double standard) {
    const bool asked = options.momentum != standard || context.origin("momentum") == "command line";
    if (asked && options.optimizer != OptimizerKind::kSgd) {
        fail<UsageError>(
            {.where = "--momentum",
             .what = fmt::format("{} has no momentum to set", word_of(options.optimizer)),
             .expected = "--optimizer sgd",
             .got = fmt::format("{}", options.momentum)});
    }
}

void check_one_process(const LaunchEnv& env, std::string_view command) {
    const int tasks = std::max(env.world_size, env.separate_tasks);
    if (tasks > 1) {
        fail<UsageError>({.where = command,
                          .what = "one process computes the whole cluster",
                          .expected = "no launcher",
                          .got = fmt::format("{} tasks", tasks),
                          .hint = "without mpirun or srun"});
    }
}

namespace fs = std::filesystem;

void OutputOption::declare(CLI::App& app, const std::string& name, const std::string& description) {
    name_ = name;
    app.add_option(name, path_, description)->type_name("FILE");
    app.add_flag("--overwrite", overwrite_, "Replace the file that " + name + " names");
}

OutputFile OutputOption::check(const CommandContext& context, std::vector<std::string> inputs,
                               const std::string& own_start) const {
    inputs.push_back(context.config);
    OutputFile file = check_output({.option = name_,
                                    .path = path_,
                                    .overwrite = overwrite_,
                                    .inputs = std::move(inputs),
                                    .own_start = own_start});
    check_folder_of(file);
    return file;
}

std::vector<std::string> files_of_runs(const std::vector<std::string>& paths) {
    std::vector<std::string> files = paths;
    for (const std::string& path : paths) {
        for (const char* name : {kResultFile, kSweepFile, "metrics.jsonl"}) {
            files.push_back((fs::path(path) / name).string());
        }
        std::error_code ignored;
        for (const auto& run : fs::directory_iterator(fs::path(path) / "runs", ignored)) {
            files.push_back((run.path() / kResultFile).string());
        }
    }
    return files;
}

}  // namespace cohort
