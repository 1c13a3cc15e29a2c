#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/core/limits.hpp"
#include "cohort/core/output.hpp"
#include "cohort/optim/learning_options.hpp"
#include "core/options.hpp"
#include "core/suggestion.hpp"
#include "jobs/cli/command_line.hpp"

namespace cohort {

/// The range of an option for people, Limits::text(), without an upper end that only keeps sums and
/// products within range: such ends lie at a million or above, and would pass for useful values.
/// @param too_large  said of a value above it
template <class T>
std::string range_text(const Limits<T>& limits, bool too_large = false) {
    constexpr auto kFar = static_cast<T>(1'000'000);
    if (too_large || limits.most < kFar || limits.ends == Limits<T>::Ends::kNotMost) {
        return limits.text();
    }
    return fmt::format("{} {}{}", limits.ends == Limits<T>::Ends::kNotLeast ? "above" : "at least",
                       limits.least, limits.or_zero ? ", or 0" : "");
}

/// What is wrong with `text` as a number of type T; empty when it is one, in decimal notation,
/// whole for whole T, and within `limits`. A whole number is rewritten as it is understood ("007"
/// becomes "7").
template <class T>
std::string check_number(std::string& text, const Limits<T>& limits) {
    T number{};
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    if (error != std::errc() || end != last || !limits.contain(number)) {
        const bool too_large = error == std::errc::result_out_of_range || number > limits.most;
        return fmt::format("expected a {}, {}, got '{}'",
                           std::is_integral_v<T> ? "whole number" : "number",
                           range_text(limits, too_large), text);
    }
    if constexpr (std::is_integral_v<T>) {
        text = std::to_string(number);
    }
    return {};
}

/// Declares an option that takes a text and shows its default in --help.
inline CLI::Option* value(CLI::App& app, const std::string& name, std::string& field,
                          const std::string& description) {
    return app.add_option(name, field, description)->capture_default_str();
}

/// Declares an option that takes a number and shows its default and range in --help.
template <class T>
CLI::Option* value(CLI::App& app, const std::string& name, T& field, const std::string& description,
                   const Limits<std::type_identity_t<T>>& limits) {
    CLI::Option* option =
        app.add_option(name, field, fmt::format("{} ({})", description, range_text(limits)))
            ->capture_default_str();
    return option->transform(
        CLI::Validator([limits](std::string& text) { return check_number(text, limits); }, ""));
}

/// Accepts these words alone, which --help lists.
[[nodiscard]] inline CLI::Validator one_of(const std::vector<std::string>& words) {
    return {[words](const std::string& text) {
                return std::ranges::find(words, text) != words.end()
                           ? std::string()
                           : fmt::format("expected {}, got {}", fmt::join(words, ", "),
                                         quoted_with_guess(text, words));
            },
            fmt::format("{{{}}}", fmt::join(words, ","))};
}

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
            option->check(one_of(info.words));
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
            ->check(one_of({kWords<E>.begin(), kWords<E>.end()}));
    }
};

/// Prints a line on standard output.
template <class... T>
void print_line(fmt::format_string<T...> text, T&&... values) {
    std::puts(fmt::format(text, std::forward<T>(values)...).c_str());
}

/// Errors: UsageError when a launcher has started several tasks. @param command  for the message
void check_one_process(const LaunchEnv& env, std::string_view command);

/// What a command cannot do without has to be given. Errors: UsageError with the other texts.
inline void need(bool given, const std::string& where, const std::string& what,
                 const std::string& expected, const std::string& hint = "") {
    if (!given) {
        fail<UsageError>({.where = where, .what = what, .expected = expected, .hint = hint});
    }
}

/// Where choices among algorithms are remembered; empty: nowhere.
[[nodiscard]] inline std::string tuning_file(const LaunchEnv& env) {
    return env.cache_folder.empty() ? "" : env.cache_folder + "/algorithms.txt";
}

/// What the optimizer would not read must not seem to count. @param standard --momentum's default
/// Errors: UsageError.
void check_momentum(const CommandContext& context, const LearningOptions& options, double standard);

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
