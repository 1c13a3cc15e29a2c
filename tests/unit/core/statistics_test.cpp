#include "cohort/core/statistics.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

TEST(Median, OddEvenAndNone) {
    EXPECT_EQ(median({3, 1, 2}), 2);
    EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
    EXPECT_EQ(median({7}), 7);
    EXPECT_THROW((void)median({}), UsageError);
}

/// The mean of values by cluster.
auto mean_of(const std::vector<double>& values) {
    return [&values](std::span<const std::uint32_t> drawn) {
        double sum = 0;
        for (const std::uint32_t cluster : drawn) {
            sum += values[cluster];
        }
        return sum / static_cast<double>(drawn.size());
    };
}

TEST(ClusterBootstrap, OfAConstantIsAPoint) {
    const std::vector<double> values(7, 0.25);
    const Interval found = ClusterBootstrap(values.size())(mean_of(values));
    EXPECT_EQ(found.value, 0.25);
    EXPECT_EQ(found.low, 0.25);
    EXPECT_EQ(found.high, 0.25);
}

/// Of two clusters a draw has twice the first, one of each or twice the second: a quarter each is
/// more than what is cut off.
TEST(ClusterBootstrap, OfTwoClustersReachesFromOneToTheOther) {
    const std::vector<double> values{1, 3};
    const Interval found = ClusterBootstrap(2)(mean_of(values));
    EXPECT_EQ(found.value, 2);
    EXPECT_EQ(found.low, 1);
    EXPECT_EQ(found.high, 3);
}

TEST(ClusterBootstrap, IsAsWideAsTheMeanVaries) {
    std::vector<double> values;
    for (int i = 0; i < 100; ++i) {
        values.push_back(i % 2);
    }
    const Interval found = ClusterBootstrap(100)(mean_of(values));
    const double deviation = 0.5 / 10;
    EXPECT_NEAR(found.high - found.low, 2 * 1.96 * deviation, 0.02);
    EXPECT_NEAR(found.low + found.high, 1, 0.02);
    const Interval again = ClusterBootstrap(100)(mean_of(values));
    EXPECT_EQ(found.low, again.low);
    EXPECT_EQ(found.high, again.high);
}

TEST(ClusterBootstrap, DrawsWithoutAValueDoNotCount) {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    const Interval found = ClusterBootstrap(2)(
        [](std::span<const std::uint32_t> drawn) -> double { return drawn[0] == 0 ? 5 : kNone; });
    EXPECT_EQ(found.low, 5);
    EXPECT_EQ(found.high, 5);
    EXPECT_EQ(ClusterBootstrap(0)([](auto /*drawn*/) { return 4.0; }).high, 4);
}

}  // namespace
}  // namespace cohort
