#include "core/units.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/core/version.hpp"

namespace cohort {
namespace {

using Seconds = std::chrono::duration<double>;

TEST(FormatBytes, UsesTheLargestUnitThatKeepsAWholeDigit) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(1023), "1023 B");
    EXPECT_EQ(format_bytes(1024), "1.0 KiB");
    EXPECT_EQ(format_bytes(1536), "1.5 KiB");
    EXPECT_EQ(format_bytes(5ULL << 20), "5.0 MiB");
    EXPECT_EQ(format_bytes(3ULL << 30), "3.0 GiB");
    EXPECT_EQ(format_bytes(2ULL << 40), "2.0 TiB");
    EXPECT_EQ(format_bytes(2048ULL << 40), "2048.0 TiB");
}

TEST(FormatDuration, ShowsHoursOnlyWhenThereAreSome) {
    EXPECT_EQ(format_duration(Seconds(0)), "0:00");
    EXPECT_EQ(format_duration(Seconds(9.4)), "0:09");
    EXPECT_EQ(format_duration(Seconds(59.6)), "1:00");
    EXPECT_EQ(format_duration(Seconds(93)), "1:33");
    EXPECT_EQ(format_duration(Seconds(3599)), "59:59");
    EXPECT_EQ(format_duration(Seconds(3700)), "1:01:40");
    EXPECT_EQ(format_duration(Seconds(360000)), "100:00:00");
    EXPECT_EQ(format_duration(Seconds(-5)), "0:00");
}

TEST(FormatCount, GroupsByThousands) {
    EXPECT_EQ(format_count(0), "0");
    EXPECT_EQ(format_count(999), "999");
    EXPECT_EQ(format_count(1000), "1,000");
    EXPECT_EQ(format_count(12345678), "12,345,678");
    EXPECT_EQ(format_count(std::numeric_limits<std::uint64_t>::max()),
              "18,446,744,073,709,551,615");
}

TEST(Counted, KnowsOneFromMany) {
    EXPECT_EQ(counted(1, "worker"), "1 worker");
    EXPECT_EQ(counted(0, "worker"), "0 workers");
    EXPECT_EQ(counted(std::size_t{2}, "switch", "switches"), "2 switches");
}

TEST(FormatShape, ListsTheExtents) {
    EXPECT_EQ(format_shape(std::vector<std::int64_t>{3, 32, 32}), "[3,32,32]");
    EXPECT_EQ(format_shape(std::vector<std::int64_t>{7}), "[7]");
    EXPECT_EQ(format_shape({}), "[]");
}

TEST(VirtualClock, MovesOnlyWhenTold) {
    VirtualClock clock;
    EXPECT_EQ(clock.now().count(), 0.0);
    clock.advance(Clock::Seconds(1.5));
    clock.advance(Clock::Seconds(0.25));
    EXPECT_EQ(clock.now().count(), 1.75);
}

TEST(SteadyClock, NeverGoesBack) {
    const SteadyClock clock;
    Clock::Seconds last = clock.now();
    for (int i = 0; i < 1000; ++i) {
        const Clock::Seconds now = clock.now();
        ASSERT_GE(now, last);
        last = now;
    }
}

TEST(Version, IsFilledInByTheBuild) {
    EXPECT_EQ(version(), "0.2.0");
    EXPECT_FALSE(revision().empty());
    EXPECT_FALSE(build_type().empty());
}

}  // namespace
}  // namespace cohort
