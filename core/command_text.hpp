#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort {

/// A command as a shell reads it: `command` with those options that differ from their defaults.
/// @param values, defaults  of the same list, as ListValues collects them  @param without  names
/// that are left out
[[nodiscard]] std::string command_text(
    std::string command, const std::vector<std::pair<std::string, std::string>>& values,
    const std::vector<std::pair<std::string, std::string>>& defaults,
    const std::vector<std::string_view>& without = {});

}  // namespace cohort
