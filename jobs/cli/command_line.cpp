#include "jobs/cli/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "cohort/core/version.hpp"
#include "core/suggestion.hpp"
#include "jobs/cli/config_file.hpp"
#include "jobs/cli/facts.hpp"
#include "jobs/cli/option_texts.hpp"

namespace cohort {
namespace {

/// Errors: UsageError, when the command was given a word that it does not know.
void refuse_extra_word(const CLI::App& command) {
    const std::vector<std::string> extras = command.remaining();
    if (extras.empty()) {
        return;
    }
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options()) {
        names.push_back(option->get_name(false, true));
    }
    const std::string word = extras.front().substr(0, extras.front().find('='));
    const bool is_option = word.starts_with('-');
    std::string where = command.get_name();
    for (const CLI::App* up = command.get_parent(); up != nullptr; up = up->get_parent()) {
        where.insert(0, up->get_name() + " ");
    }
    fail<UsageError>({.where = where,
                      .what = is_option ? "there is no such option" : "a word too many",
                      .got = is_option ? quoted_with_guess(word, names) : "'" + word + "'",
                      .hint = where + " --help"});
}

/// Errors: UsageError when a word that should name a command does not.
void check_command_words(const CLI::App& root, const std::vector<std::string>& arguments) {
    const CLI::App* app = &root;
    std::string path = root.get_name();
    for (const std::string& word : arguments) {
        std::vector<std::string> names;
        for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; })) {
            names.push_back(command->get_name());
        }
        if (names.empty() || word.starts_with('-')) {
            return;
        }
        if (std::find(names.begin(), names.end(), word) == names.end()) {
            fail<UsageError>({.where = path,
                              .what = "there is no such command",
                              .expected = CLI::detail::join(names, ", "),
                              .got = quoted_with_guess(word, names),
                              .hint = path + " --help"});
        }
        app = app->get_subcommand(word);
        path += " " + word;
    }
}

}  // namespace

CommandLine::CommandLine(const std::function<void(const CommandGroup&)>& add_commands)
    : app_("Trains neural networks data-parallel.", "cohort") {
    app_.set_version_flag("--version",
                          [] { return fmt::format("{}", fmt::join(build_facts(), "\n")); });
    app_.require_subcommand(1);
    add_commands({*this, app_});
}

CommandGroup CommandGroup::group(const std::string& name, const std::string& description) const {
    CLI::App* const app = app_.add_subcommand(name, description);
    app->require_subcommand(1);
    return {line_, *app};
}

void CommandLine::add(CLI::App& parent, const std::string& name, const std::string& description,
                      std::unique_ptr<Command> command) {
    leaves_.push_back(std::make_unique<Leaf>());
    Leaf& leaf = *leaves_.back();
    leaf.app = parent.add_subcommand(name, description);
    leaf.command = std::move(command);
    leaf.command->declare(*leaf.app);
    leaf.app
        ->add_option("--config", leaf.config,
                     "Read options from this file (TOML: name = value); the command line wins")
        ->type_name("FILE");
    leaf.app->add_flag("--dump-config", leaf.dump_config,
                       "Print the options in force as a config file and stop");
}

CommandLine::Leaf& CommandLine::parse(std::vector<std::string> arguments) {
    try {
        app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::ExtrasError&) {
        for (const std::unique_ptr<Leaf>& leaf : leaves_) {
            if (leaf->app->parsed()) {
                refuse_extra_word(*leaf->app);
            }
        }
        throw;
    }
    for (const std::unique_ptr<Leaf>& leaf : leaves_) {
        if (leaf->app->parsed()) {
            return *leaf;
        }
    }
    fail<UsageError>({.where = "command line", .what = "no command", .hint = "cohort --help"});
}

ExitCode CommandLine::run(int argc, const char* const* argv) {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments.size() == 2 && arguments[0] == "options") {
        if (const auto text = option_text(app_, arguments[1])) {
            std::fputs(text->c_str(), stdout);
            return ExitCode::kDone;
        }
    }
    check_command_words(app_, arguments);
    Leaf& leaf = parse(arguments);
    if (leaf.config.empty()) {
        return run(leaf, {});
    }
    const ConfigArguments file = arguments_from_config(leaf.config, *leaf.app);
    const bool nested = leaf.app->get_parent() != &app_;
    arguments.insert(arguments.begin() + (nested ? 2 : 1), file.arguments.begin(),
                     file.arguments.end());
    try {
        return run(parse(arguments), file.places);
    } catch (const CLI::ParseError& error) {
        fail_in_config(error.what(), file.places);
        throw;
    } catch (const UsageError& error) {
        fail_in_config(error.what(), file.places);
        throw;
    }
}

ExitCode CommandLine::run(const Leaf& leaf, const ConfigPlaces& places) {
    CommandContext context{.env = read_launch_env(),
                           .options = effective_options(*leaf.app, places, leaf.config),
                           .config = leaf.config};
    if (leaf.dump_config) {
        std::fputs(config_text(context.options).c_str(), stdout);
        return ExitCode::kDone;
    }
    return leaf.command->run(context);
}

ExitCode CommandLine::report(const CLI::ParseError& error) {
    return app_.exit(error) == 0 ? ExitCode::kDone : ExitCode::kUsage;
}

}  // namespace cohort
