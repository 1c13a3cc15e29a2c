#pragma once

#include <exception>
#include <new>
#include <string>

namespace cohort {

/// What people are told of an error: what() but for memory that has ended, of which the standard
/// library gives the name of a type.
[[nodiscard]] inline std::string failure_text(const std::exception& error) {
    return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? "out of memory" : error.what();
}

}  // namespace cohort
