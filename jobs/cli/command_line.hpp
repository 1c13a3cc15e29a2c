#pragma once

#include <CLI/CLI.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/error.hpp"
#include "core/system/launch_env.hpp"

namespace cohort {

/// An option's value in force and where it came from.
struct EffectiveOption {
    std::string name;  ///< long name without dashes
    std::string value;
    std::string toml;    ///< the value as a config file writes it
    std::string origin;  ///< "default", "command line" or the config file's name
};

/// What a command may know about how it was called.
struct CommandContext {
    LaunchEnv env;
    std::vector<EffectiveOption> options;
    std::string config;  ///< the config file that was read; empty: none

    /// Where the value of an option comes from, see EffectiveOption.
    [[nodiscard]] std::string origin(std::string_view name) const {
        const auto found = std::ranges::find(options, name, &EffectiveOption::name);
        return found == options.end() ? "" : found->origin;
    }
};

/// One leaf of the command tree, e.g. `cohort train`. Each option fills a field of the command.
class Command {
public:
    Command() = default;
    Command(const Command&) = delete;
    Command& operator=(const Command&) = delete;
    virtual ~Command() = default;
    virtual void declare(CLI::App& app) = 0;
    virtual ExitCode run(const CommandContext& context) = 0;
};

class CommandLine;

/// A place in the command tree, below which commands are added.
class CommandGroup {
public:
    CommandGroup(CommandLine& line, CLI::App& app) : line_(line), app_(app) {}
    /// A leaf that is a command of type C.
    template <class C>
    void add(const std::string& name, const std::string& description) const;
    /// A place below this one, of which one command has to be named.
    [[nodiscard]] CommandGroup group(const std::string& name, const std::string& description) const;

private:
    CommandLine& line_;
    CLI::App& app_;
};

/// The command tree with all options. Order of precedence: default < config file < command line.
class CommandLine {
public:
    /// @param add_commands  adds all commands to the group that it is given
    explicit CommandLine(const std::function<void(const CommandGroup&)>& add_commands);

    /// Parses and runs the command that was asked for.
    /// Errors: CLI::ParseError (help and version requests included), UsageError and FileError for
    /// the config file, whatever the command throws.
    ExitCode run(int argc, const char* const* argv);

    /// Prints what a parse error asks for (help, version, message) and gives the exit code.
    ExitCode report(const CLI::ParseError& error);

    /// @param parent  of this tree
    void add(CLI::App& parent, const std::string& name, const std::string& description,
             std::unique_ptr<Command> command);

private:
    struct Leaf {
        CLI::App* app = nullptr;
        std::unique_ptr<Command> command;
        std::string config;
        bool dump_config = false;
    };

    Leaf& parse(std::vector<std::string> arguments);
    /// @param places  of options that the config file decided
    static ExitCode run(const Leaf& leaf, const std::map<std::string, std::string>& places);

    CLI::App app_;
    std::vector<std::unique_ptr<Leaf>> leaves_;
};

template <class C>
void CommandGroup::add(const std::string& name, const std::string& description) const {
    line_.add(app_, name, description, std::make_unique<C>());
}

}  // namespace cohort
