#pragma once

#include <string>

#include "cohort/core/error.hpp"

namespace cohort {

/// For checks of options. Errors: UsageError with what is allowed and what was given.
/// @param option  its long name, with dashes
inline void require(bool holds, const char* option, const std::string& expected,
                    const std::string& got) {
    if (!holds) {
        fail<UsageError>({.where = option,
                          .what = "the value cannot be used",
                          .expected = expected,
                          .got = got});
    }
}

}  // namespace cohort
