#pragma once

#include <string>

#include "cohort/core/error.hpp"

namespace cohort {

/// Checks an option. Errors: UsageError with the allowed and the given value. @param option  its
/// long name, with dashes
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
