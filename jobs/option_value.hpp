#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace cohort {

/// Declares an option that takes a value and shows its default in --help.
template <class T>
CLI::Option* value(CLI::App& app, const std::string& name, T& field,
                   const std::string& description) {
    return app.add_option(name, field, description)->capture_default_str();
}

}  // namespace cohort
