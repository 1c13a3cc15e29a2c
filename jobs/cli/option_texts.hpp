#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace cohort {

/// All commands and options of the program as a text.
/// @param form  "--markdown": docs/options.md; "--man": the manual page cohort(1), in roff with the
/// macros of man(7); "--bash": what bash completes; nullopt for another one
[[nodiscard]] std::optional<std::string> option_text(const CLI::App& root, std::string_view form);

}  // namespace cohort
