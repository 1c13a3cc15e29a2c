#pragma once

#include <CLI/CLI.hpp>

#include <map>
#include <string>
#include <vector>

#include "jobs/cli/command_line.hpp"

namespace cohort {

/// Option name -> file, line and key that it is from, as messages say it.
using ConfigPlaces = std::map<std::string, std::string>;

struct ConfigArguments {
    std::vector<std::string> arguments;
    ConfigPlaces places;
};

/// The command line arguments that a config file (TOML) stands for, without those the user gave on
/// the command line himself (`app` has parsed them already), nor `epochs` when he gave --samples
/// and the like. Keys are long option names; they stand at the top of the file or in a section
/// called like the command.
/// Errors: FileError when the file cannot be read; UsageError naming file, line and key for what is
/// not TOML, an unknown key or section, an empty value, and a key that comes twice.
[[nodiscard]] ConfigArguments arguments_from_config(const std::string& path, const CLI::App& app);

/// Returns when an error's message is about no option of the file. Errors: UsageError with the
/// place in the file in front.
void fail_in_config(const std::string& message, const ConfigPlaces& places);

/// Every option of `app` with its value in force, after parsing. @param config  the file's name
[[nodiscard]] std::vector<EffectiveOption> effective_options(const CLI::App& app,
                                                             const ConfigPlaces& places,
                                                             const std::string& config);

/// A config file that gives these options again.
[[nodiscard]] std::string config_text(const std::vector<EffectiveOption>& options);

}  // namespace cohort
