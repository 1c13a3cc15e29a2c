#include "train/hooks/record_limit.hpp"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(RecordLimit, OneASecondOnAverage) {
    RecordLimit limit;
    std::int64_t written = 0;
    std::int64_t left_out = 0;
    for (int i = 0; i < 36 * 1000; ++i) {  // one a millisecond
        if (limit.admit(1000 + i / 1000.0)) {
            ++written;
            left_out += limit.take_left_out();
        }
    }
    EXPECT_EQ(written, 10 + 35);
    EXPECT_EQ(written + left_out + limit.take_left_out(), 36 * 1000) << "all are accounted for";
    EXPECT_TRUE(limit.admit(2000));
    EXPECT_EQ(limit.take_left_out(), 0);
}

TEST(RecordLimit, LeavesOutNothingOfASlowerRun) {
    RecordLimit limit;
    for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(limit.admit(1.0 * i));
    }
}

}  // namespace
}  // namespace cohort
