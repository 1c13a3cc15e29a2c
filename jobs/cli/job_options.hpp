#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <type_traits>
#include <vector>

#include "cohort/optim/learning_options.hpp"
#include "core/options.hpp"
#include "jobs/cli/command_line.hpp"
#include "jobs/cli/option_value.hpp"

namespace cohort {

/// Visitor of a list of options (core/options.hpp): declares each on the command line, so that it
/// fills its field.
struct DeclareOptions {
    CLI::App& app;

    template <class T>
    void operator()(const OptionInfo& info, T& field, const Limits<T>& limits) const {
        value(app, info.name, field, info.meaning, limits);
    }
    void operator()(const OptionInfo& info, bool& field) const {
        app.add_flag(info.name, field, info.meaning);
    }
    void operator()(const OptionInfo& info, std::string& field) const {
        CLI::Option* const option = value(app, info.name, field, info.meaning);
        if (info.type != nullptr) {
            option->type_name(info.type);
        }
        if (!info.words.empty()) {
            option->check(CLI::IsMember(info.words));
        }
    }
    template <class E>
    requires std::is_enum_v<E>
    void operator()(const OptionInfo& info, E& field) const {
        app.add_option_function<std::string>(
               info.name,
               [&field, name = info.name](const std::string& word) {
                   field = parse_word<E>(word, name);
               },
               info.meaning)
            ->default_str(std::string(word_of(field)))
            ->check(CLI::IsMember(std::vector<std::string>(kWords<E>.begin(), kWords<E>.end())));
    }
};

/// Where choices among a GPU's algorithms are remembered; empty: nowhere.
[[nodiscard]] inline std::string tuning_file(const LaunchEnv& env) {
    return env.cache_folder.empty() ? "" : env.cache_folder + "/algorithms.txt";
}

/// What the optimizer would not read must not seem to count. @param standard --momentum's default
/// Errors: UsageError.
void check_momentum(const CommandContext& context, const LearningOptions& options, double standard);

}  // namespace cohort
