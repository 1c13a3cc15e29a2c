#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <type_traits>

#include "number_text.hpp"

namespace cohort {

/// Declares an option that takes a value and shows its default in --help.
template <class T>
CLI::Option* value(CLI::App& app, const std::string& name, T& field,
                   const std::string& description) {
    CLI::Option* option = app.add_option(name, field, description)->capture_default_str();
    if constexpr (std::is_arithmetic_v<T>) {
        option->transform(
            CLI::Validator([](std::string& text) { return check_number(text, Limits<T>{}); }, ""));
    }
    return option;
}

/// A number that must lie within limits.
template <class T>
CLI::Option* value(CLI::App& app, const std::string& name, T& field, const std::string& description,
                   Limits<T> limits) {
    CLI::Option* option = app.add_option(name, field, description)->capture_default_str();
    return option->transform(
        CLI::Validator([limits](std::string& text) { return check_number(text, limits); }, ""));
}

}  // namespace cohort
