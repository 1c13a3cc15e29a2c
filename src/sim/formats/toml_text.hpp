#pragma once

#include <fmt/format.h>
#include <toml++/toml.h>

#include <string>
#include <string_view>

#include "cohort/core/error.hpp"

namespace cohort {

/// Errors: FileError with file and line for what is not TOML.
[[nodiscard]] inline toml::table parse_toml(std::string_view text, const std::string& file) {
    try {
        return toml::parse(text);
    } catch (const toml::parse_error& error) {
        fail<FileError>({.where = fmt::format("{}, line {}", file, error.source().begin.line),
                         .what = "not a TOML file",
                         .expected = "name = value, texts in quotes",
                         .got = error.description()});
    }
}

}  // namespace cohort
