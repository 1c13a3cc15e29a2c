#pragma once

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <charconv>
#include <string>
#include <system_error>
#include <type_traits>

#include "cohort/core/limits.hpp"

namespace cohort {

/// What is wrong with `text` as a number of type T; empty when it is one, in decimal notation,
/// whole for whole T, and within `limits`. A whole number is rewritten as it is understood ("007"
/// becomes "7").
template <class T>
std::string check_number(std::string& text, const Limits<T>& limits) {
    T number{};
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    if (error != std::errc() || end != last || !limits.contain(number)) {
        return fmt::format("expected {}, got '{}'", limits.expected(), text);
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
        app.add_option(name, field, fmt::format("{} ({})", description, limits.text()))
            ->capture_default_str();
    return option->transform(
        CLI::Validator([limits](std::string& text) { return check_number(text, limits); }, ""));
}

}  // namespace cohort
