#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "command_line.hpp"

namespace cohort {

/// The command line arguments that a config file stands for, without those the user gave on the
/// command line himself (`app` has parsed them already), nor `epochs` when he gave --samples and
/// the like. Keys are long option names; they stand
/// at the top of the file or in a section called like the command.
/// Errors: FileError when the file cannot be read; UsageError for an unknown key or section and
/// whatever read_config refuses.
/// @param names receives the names of the options taken from the file
[[nodiscard]] std::vector<std::string> arguments_from_config(const std::string& path,
                                                             const CLI::App& app,
                                                             std::vector<std::string>& names);

/// Every option of `app` with its value in force, after parsing.
[[nodiscard]] std::vector<EffectiveOption> effective_options(
    const CLI::App& app, const std::vector<std::string>& from_file, const std::string& config);

/// A config file that gives these options again.
[[nodiscard]] std::string config_text(const std::vector<EffectiveOption>& options);

}  // namespace cohort
