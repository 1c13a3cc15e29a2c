#include "core/command_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cohort {
namespace {

/// A word as a shell reads it.
std::string shell_quoted(const std::string& word) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=+@%";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
        return word;
    }
    std::string text = "'";
    for (const char c : word) {
        text += c == '\'' ? "'\\''" : std::string(1, c);
    }
    return text + "'";
}

}  // namespace

std::string command_text(std::string command,
                         const std::vector<std::pair<std::string, std::string>>& values,
                         const std::vector<std::pair<std::string, std::string>>& defaults,
                         const std::vector<std::string_view>& without) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto& [name, value] = values[i];
        if (value == defaults[i].second || std::ranges::find(without, name) != without.end()) {
            continue;
        }
        const bool flag = value == "true" && defaults[i].second == "false";
        command += fmt::format(" --{}{}", name, flag ? "" : " " + shell_quoted(value));
    }
    return command;
}

}  // namespace cohort
