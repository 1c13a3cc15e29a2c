#include "sched/session/failed_samples.hpp"

#include <gtest/gtest.h>

namespace cohort {
namespace {

using Ids = std::vector<std::int64_t>;

TEST(FailedSamples, NamesThoseThatFailAgainWhileOthersDoNot) {
    FailedSamples record;
    record.failed(Ids{9, 3, 7});
    EXPECT_EQ(record.again().samples, Ids{}) << "once may be the model";
    record.finite();
    record.failed(Ids{7, 9, 1});
    EXPECT_EQ(record.again().samples, (Ids{7, 9})) << "what both have";
    EXPECT_EQ(record.again().times, 2);
    EXPECT_TRUE(record.again().others_finite);
}

TEST(FailedSamples, ADivergedModelFailsOnAll) {
    FailedSamples record;
    for (std::int64_t i = 0; i < 100; ++i) {
        record.failed(Ids{2 * i, 2 * i + 1});
        EXPECT_EQ(record.again().samples, Ids{});
    }
    record.failed(Ids{198});
    EXPECT_EQ(record.again().samples, Ids{198});
    EXPECT_FALSE(record.again().others_finite) << "nothing else was tried";
}

TEST(FailedSamples, FailuresOfOthersBetweenDoNotCount) {
    FailedSamples record;
    record.failed(Ids{1, 2});
    record.failed(Ids{5, 6});
    record.failed(Ids{2});
    EXPECT_EQ(record.again().samples, Ids{2});
    EXPECT_EQ(record.again().times, 2);
}

}  // namespace
}  // namespace cohort
