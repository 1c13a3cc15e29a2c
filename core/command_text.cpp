#include "core/command_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/shell_word.hpp"

namespace cohort {

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
