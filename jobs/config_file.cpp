#include "config_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace cohort {
namespace {

/// Options that steer the program rather than the job; a config file cannot hold them.
constexpr std::array<std::string_view, 4> kNotConfigurable{"help", "config", "dump-config",
                                                           "dry-run"};

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

/// The value in force as a config file writes it; lists as `["a","b"]`.
std::string value_text(const CLI::Option& option) {
    if (is_flag(option)) {
        return option.count() > 0 ? "true" : "false";
    }
    if (option.count() == 0) {
        return option.get_default_str();
    }
    return is_list(option) ? "[\"" + CLI::detail::join(option.results(), "\",\"") + "\"]"
                           : CLI::detail::join(option.results(), ",");
}

bool is_bare(const std::string& value) {
    if (value == "true" || value == "false" || value.starts_with("[\"")) {
        return true;
    }
    char* end = nullptr;
    std::strtod(value.c_str(), &end);
    return !value.empty() && *end == '\0';
}

std::vector<CLI::ConfigItem> read_items(const std::string& path) {
    std::ifstream file(path);
    std::string probe;
    if (!file || (std::getline(file, probe), file.bad() || (file.fail() && !file.eof()))) {
        fail<FileError>({.where = path,
                         .what = "the config file cannot be read",
                         .hint = "the path given to --config"});
    }
    file.clear();
    file.seekg(0);
    return CLI::ConfigTOML().from_config(file);
}

}  // namespace

std::vector<std::string> arguments_from_config(const std::string& path, const CLI::App& app,
                                               std::vector<std::string>& names) {
    std::vector<std::string> arguments;
    for (const CLI::ConfigItem& item : read_items(path)) {
        if (item.name == "++" || item.name == "--") {
            continue;
        }
        const bool own_section =
            item.parents.empty() || (item.parents.size() == 1 && item.parents[0] == app.get_name());
        const CLI::Option* option = own_section && configurable(item.name)
                                        ? app.get_option_no_throw("--" + item.name)
                                        : nullptr;
        if (option == nullptr) {
            fail<UsageError>({.where = path,
                              .what = "'" + item.fullname() + "' is not an option of this command",
                              .hint = "--help for the names, --dump-config for an example"});
        }
        if (option->count() > 0) {
            continue;
        }
        const std::string value = CLI::detail::join(item.inputs, ",");
        if (is_list(*option)) {
            for (const std::string& entry : item.inputs) {
                arguments.push_back("--" + item.name + "=" + entry);
            }
        } else if (!is_flag(*option)) {
            arguments.push_back("--" + item.name + "=" + value);
        } else if (value == "true") {
            arguments.push_back("--" + item.name);
        } else if (value != "false") {
            fail<UsageError>({.where = path + ", " + item.name,
                              .what = "not a truth value",
                              .expected = "true or false",
                              .got = value});
        }
        names.push_back(item.name);
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
        entry.value = value_text(*option);
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
        if (!option.value.empty()) {
            text += is_bare(option.value) ? fmt::format("{} = {}\n", option.name, option.value)
                                          : fmt::format("{} = \"{}\"\n", option.name, option.value);
        }
    }
    return text;
}

}  // namespace cohort
