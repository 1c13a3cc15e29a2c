#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "cohort/core/output.hpp"
#include "jobs/cli/command_line.hpp"

namespace cohort {

/// The file that a command writes, and --overwrite.
class OutputOption {
public:
    void declare(CLI::App& app, const std::string& name, const std::string& description);
    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] bool given() const noexcept { return !path_.empty(); }
    /// In place of one that was not given.
    void set(std::string path) { path_ = std::move(path); }

    /// To be called before the work, so that a file that cannot be written costs none.
    /// @param inputs  files that the command reads; its config file counts anyway
    /// @param own_start  first bytes of an earlier output, which is replaced
    /// Errors: as check_output and check_folder_of.
    [[nodiscard]] OutputFile check(const CommandContext& context, std::vector<std::string> inputs,
                                   const std::string& own_start = "") const;

private:
    std::string name_;
    std::string path_;
    bool overwrite_ = false;
};

/// The files, and in folders those of runs and sweeps: what a command reads that is given these.
[[nodiscard]] std::vector<std::string> files_of_runs(const std::vector<std::string>& paths);

}  // namespace cohort
