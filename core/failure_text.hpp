#pragma once

#include <exception>
#include <new>
#include <string>

namespace cohort {

/// What people are told of an error after which work goes on. The standard library's text for
/// memory that has ended is the name of a type.
[[nodiscard]] inline std::string failure_text(const std::exception& error) {
    return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? "out of memory" : error.what();
}

}  // namespace cohort
