#include "cohort/core/statistics.hpp"

#include <gtest/gtest.h>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

TEST(Median, OddEvenAndNone) {
    EXPECT_EQ(median({3, 1, 2}), 2);
    EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
    EXPECT_EQ(median({7}), 7);
    EXPECT_THROW((void)median({}), UsageError);
}

}  // namespace
}  // namespace cohort
