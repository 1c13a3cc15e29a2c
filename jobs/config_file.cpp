#include "config_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "config_reader.hpp"

namespace cohort {
namespace {

/// Options that steer the program rather than the job; a config file cannot hold them.
constexpr std::array<std::string_view, 4> kNotConfigurable{"help", "config", "dump-config",
                                                           "dry-run"};

/// Options of which one decides what the other would decide as well.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kAlternatives{
    {{"samples", "epochs"}, {"resume", "overwrite"}}};

bool configurable(const std::string& name) {
    return !name.empty() && std::find(kNotConfigurable.begin(), kNotConfigurable.end(), name) ==
                                kNotConfigurable.end();
}

std::string long_name(const CLI::Option& option) {
    return option.get_lnames().empty() ? std::string() : option.get_lnames().front();
}

bool is_flag(const CLI::Option& option) {
    return option.get_items_expected_max() == 0;
}

bool is_list(const CLI::Option& option) {
    return option.get_items_expected_max() > 1;
}

/// Whole text a number or truth value, which TOML leaves without quotes.
bool is_bare(const std::string& text) {
    double number = 0;
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    return text == "true" || text == "false" || (error == std::errc() && end == last);
}

std::string toml_text(const std::string& text) {
    return is_bare(text) ? text : quoted(text);
}

/// Lists as `["a","b"]`.
std::string list_text(const std::vector<std::string>& entries) {
    std::string text;
    for (const std::string& entry : entries) {
        text += text.empty() ? '[' : ',';
        text += quoted(entry);
    }
    return text + "]";
}

/// Fills in the value in force, for people and for a config file.
void set_value(const CLI::Option& option, EffectiveOption& entry) {
    if (is_flag(option)) {
        entry.value = option.count() > 0 ? "true" : "false";
    } else if (option.count() == 0) {
        entry.value = option.get_default_str();
    } else if (is_list(option)) {
        entry.value = entry.toml = list_text(option.results());
        return;
    } else {
        entry.value = CLI::detail::join(option.results(), ",");
    }
    entry.toml = entry.value.empty() ? "" : toml_text(entry.value);
}

/// Whether the command line decides what option `name` of the file would decide.
bool decided(const CLI::App& app, const std::string& name) {
    if (app.get_option("--" + name)->count() > 0) {
        return true;
    }
    for (const auto& [one, other] : kAlternatives) {
        const std::string_view alternative = name == one ? other : name == other ? one : "";
        const CLI::Option* option = alternative.empty()
                                        ? nullptr
                                        : app.get_option_no_throw(fmt::format("--{}", alternative));
        // 0 leaves the choice to the alternative.
        if (option != nullptr && option->count() > 0 && option->results().front() != "0") {
            return true;
        }
    }
    return false;
}

/// The arguments that an entry of the file stands for.
std::vector<std::string> arguments_of(const ConfigEntry& entry, const CLI::Option& option) {
    const std::string name = "--" + entry.key;
    if (is_list(option)) {
        std::vector<std::string> arguments;
        for (const std::string& value : entry.values) {
            arguments.push_back(fmt::format("{}={}", name, value));
        }
        return arguments;
    }
    const std::string value = CLI::detail::join(entry.values, ",");
    if (!is_flag(option)) {
        return {name + "=" + value};
    }
    if (value != "true" && value != "false") {
        fail<UsageError>({.where = entry.where,
                          .what = "not a truth value",
                          .expected = "true or false",
                          .got = value});
    }
    return value == "true" ? std::vector<std::string>{name} : std::vector<std::string>{};
}

}  // namespace

std::vector<std::string> arguments_from_config(const std::string& path, const CLI::App& app,
                                               std::vector<std::string>& names) {
    std::vector<std::string> arguments;
    for (const ConfigEntry& entry : read_config(path)) {
        const bool own_section = entry.section.empty() || entry.section == app.get_name();
        const CLI::Option* option = own_section && configurable(entry.key)
                                        ? app.get_option_no_throw("--" + entry.key)
                                        : nullptr;
        if (option == nullptr) {
            fail<UsageError>({.where = entry.where,
                              .what = "not an option of this command",
                              .got = entry.section + (entry.section.empty() ? "" : ".") + entry.key,
                              .hint = "--help for the names, --dump-config for an example"});
        }
        if (!decided(app, entry.key)) {
            const std::vector<std::string> added = arguments_of(entry, *option);
            arguments.insert(arguments.end(), added.begin(), added.end());
            names.push_back(entry.key);
        }
    }
    return arguments;
}

std::vector<EffectiveOption> effective_options(const CLI::App& app,
                                               const std::vector<std::string>& from_file,
                                               const std::string& config) {
    std::vector<EffectiveOption> effective;
    for (const CLI::Option* option : app.get_options()) {
        EffectiveOption entry;
        entry.name = long_name(*option);
        if (!configurable(entry.name)) {
            continue;
        }
        set_value(*option, entry);
        const bool in_file =
            std::find(from_file.begin(), from_file.end(), entry.name) != from_file.end();
        entry.origin = in_file ? config : option->count() > 0 ? "command line" : "default";
        effective.push_back(std::move(entry));
    }
    return effective;
}

std::string config_text(const std::vector<EffectiveOption>& options) {
    std::string text;
    for (const EffectiveOption& option : options) {
        if (!option.toml.empty()) {
            text += fmt::format("{} = {}\n", option.name, option.toml);
        }
    }
    return text;
}

}  // namespace cohort
