#include "cohort/core/limits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace cohort {
namespace {

TEST(Limits, SayWhatTheyContain) {
    using Real = Limits<double>;
    const Limits<int> plain{.least = 1, .most = 1024};
    EXPECT_TRUE(plain.contain(1) && plain.contain(1024));
    EXPECT_FALSE(plain.contain(0) || plain.contain(1025));
    EXPECT_EQ(plain.text(), "1 to 1024");
    EXPECT_EQ(plain.expected(), "a whole number, 1 to 1024");

    const Limits<int> auto_or{.least = 1024, .most = 4096, .or_zero = true};
    EXPECT_TRUE(auto_or.contain(0) && auto_or.contain(1024));
    EXPECT_FALSE(auto_or.contain(1) || auto_or.contain(-1));
    EXPECT_EQ(auto_or.text(), "1024 to 4096, or 0");

    const Real above{.least = 0, .most = 1, .ends = Real::Ends::kNotLeast};
    EXPECT_TRUE(above.contain(1e-300) && above.contain(1));
    EXPECT_FALSE(above.contain(0) || above.contain(-0.0) || above.contain(1.5));
    EXPECT_EQ(above.expected(), "a number, above 0, at most 1");

    const Real below{.least = 0, .most = 1, .ends = Real::Ends::kNotMost};
    EXPECT_TRUE(below.contain(0) && below.contain(0.999));
    EXPECT_FALSE(below.contain(1));
    EXPECT_EQ(below.text(), "0 to below 1");

    EXPECT_FALSE(Real{}.contain(NAN)) << "of any range";
    EXPECT_FALSE(above.contain(INFINITY));
}

TEST(Limits, ARefusalNamesOptionRangeAndValue) {
    require_within(3, Limits<int>{.least = 1, .most = 9}, "--batch");
    EXPECT_THAT(
        [&] { require_within(10, Limits<int>{.least = 1, .most = 9}, "--batch"); },
        testing::ThrowsMessage<UsageError>(testing::StrEq(
            "[--batch] the value cannot be used; expected a whole number, 1 to 9, got 10")));
}

}  // namespace
}  // namespace cohort
