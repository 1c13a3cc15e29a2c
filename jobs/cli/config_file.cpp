#include "jobs/cli/config_file.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/suggestion.hpp"
#include "data/text/toml_reader.hpp"

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

/// A number or truth value as TOML writes it, without quotes.
bool is_bare(const std::string& text) {
    if (text.empty() || text.find_first_not_of("0123456789+-.eE") != std::string::npos) {
        return text == "true" || text == "false";
    }
    try {
        return toml::parse("value = " + text)["value"].is_number();
    } catch (const toml::parse_error&) {
        return false;
    }
}

template <class Node>
std::string toml_text(const Node& node) {
    std::ostringstream text;
    text << toml::toml_formatter(node, toml::format_flags::allow_unicode_strings);
    return text.str();
}

std::string list_text(const std::vector<std::string>& entries) {
    toml::array list;
    for (const std::string& entry : entries) {
        list.push_back(entry);
    }
    return toml_text(list);
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
    if (!entry.value.empty()) {
        entry.toml = is_bare(entry.value) ? entry.value : toml_text(toml::value(entry.value));
    }
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

/// Takes a config file apart for one command.
class ConfigReader : TomlReader {
public:
    ConfigReader(const std::string& path, const CLI::App& app) : TomlReader(path), app_(app) {}

    ConfigArguments read() {
        const toml::table file = parse();
        for (const auto& [name, node] : file) {
            const toml::table* const section = node.as_table();
            if (section == nullptr) {
                add("", name.str(), node);
                continue;
            }
            for (const auto& [key, value] : *section) {
                add(std::string(name.str()) + ".", key.str(), value);
            }
        }
        return std::move(found_);
    }

private:
    /// @param section  with a dot behind it; empty at the top of the file
    void add(const std::string& section, std::string_view name, const toml::node& node) {
        const std::string key(name);
        const std::string full = section + key;
        const std::vector<std::string> values = values_of(node, full);
        const bool own_section = section.empty() || section == app_.get_name() + ".";
        const CLI::Option* const option =
            own_section && configurable(key) ? app_.get_option_no_throw("--" + key) : nullptr;
        if (option == nullptr) {
            const std::string guess = own_section ? closest_word(key, configurable_names()) : "";
            fail<UsageError>(
                {.where = where(node, full),
                 .what = "not an option of this command",
                 .got = guess.empty() ? full : fmt::format("{} (did you mean {}?)", full, guess),
                 .hint = "--help for the names, --dump-config for an example"});
        }
        const auto [earlier, is_new] = seen_.try_emplace(key, where(node, full));
        if (!is_new) {
            refuse(node, full, "the key comes twice", "one of them", "first in " + earlier->second);
        }
        if (!decided(app_, key)) {
            add_arguments(*option, "--" + key, values, earlier->second);
            found_.places.emplace(key, earlier->second);
        }
    }

    [[nodiscard]] std::vector<std::string> configurable_names() const {
        std::vector<std::string> names;
        for (const CLI::Option* option : app_.get_options()) {
            if (const std::string name = long_name(*option); configurable(name)) {
                names.push_back(name);
            }
        }
        return names;
    }

    void add_arguments(const CLI::Option& option, const std::string& name,
                       const std::vector<std::string>& values, const std::string& place) {
        const std::string value = CLI::detail::join(values, ",");
        if (is_list(option)) {
            for (const std::string& each : values) {
                found_.arguments.push_back(fmt::format("{}={}", name, each));
            }
        } else if (!is_flag(option)) {
            found_.arguments.push_back(fmt::format("{}={}", name, value));
        } else if (value == "true") {
            found_.arguments.push_back(name);
        } else if (value != "false") {
            fail<UsageError>({.where = place,
                              .what = "not a truth value",
                              .expected = "true or false",
                              .got = value});
        }
    }

    /// One value, or those of a list, as the command line writes them.
    [[nodiscard]] std::vector<std::string> values_of(const toml::node& node,
                                                     const std::string& full) const {
        std::vector<std::string> values;
        const auto take = [&](const toml::node& each) {
            const std::optional<std::string> value = text_of(each);
            if (!value) {
                refuse(each, full, "not a value of an option",
                       "a text in quotes, a number, true, false, or a list of these",
                       "another kind of value");
            }
            values.push_back(*value);
        };
        if (const toml::array* const list = node.as_array()) {
            for (const toml::node& each : *list) {
                take(each);
            }
        } else {
            take(node);
        }
        if (values.empty() || std::find(values.begin(), values.end(), "") != values.end()) {
            refuse(node, full, "the value is empty", "a value, or no such line for the default",
                   "nothing");
        }
        return values;
    }

    const CLI::App& app_;
    std::map<std::string, std::string> seen_;  ///< keys and their places
    ConfigArguments found_;
};

}  // namespace

ConfigArguments arguments_from_config(const std::string& path, const CLI::App& app) {
    return ConfigReader(path, app).read();
}

void fail_in_config(const std::string& message, const ConfigPlaces& places) {
    const bool bracket = message.starts_with('[');
    const std::string_view text = std::string_view(message).substr(bracket ? 1 : 0);
    const std::size_t end = std::min(text.find_first_of(":,]"), text.size());
    const auto place =
        text.starts_with("--") ? places.find(std::string(text.substr(2, end - 2))) : places.end();
    if (place == places.end()) {
        return;
    }
    // CLI11 writes "--name: what is wrong", this library "[--name] what is wrong".
    const std::string rest(text.substr(bracket ? text.find(']') + 1 : end + 1));
    throw UsageError(fmt::format("[{}]{}", place->second, rest));
}

std::vector<EffectiveOption> effective_options(const CLI::App& app, const ConfigPlaces& places,
                                               const std::string& config) {
    std::vector<EffectiveOption> effective;
    for (const CLI::Option* option : app.get_options()) {
        EffectiveOption entry;
        entry.name = long_name(*option);
        if (!configurable(entry.name)) {
            continue;
        }
        set_value(*option, entry);
        entry.origin = places.contains(entry.name) ? config
                       : option->count() > 0       ? "command line"
                                                   : "default";
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
