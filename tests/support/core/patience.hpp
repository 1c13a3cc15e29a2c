#pragma once

#include <cstdlib>

#include "cohort/core/clock.hpp"

namespace cohort::test {

/// How long a test waits for an event that must come. It is no measure of time: nine tenths of what
/// ctest allows the test (cmake/cohort_tests.cmake), so that a test that hangs says where itself.
inline const Clock::Seconds kPatience = [] {
    const char* limit_s = std::getenv("COHORT_TEST_LIMIT_S");
    return Clock::Seconds(limit_s == nullptr ? 3600 : 0.9 * std::atof(limit_s));
}();

}  // namespace cohort::test
