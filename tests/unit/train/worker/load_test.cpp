// What real runs make of the load: use of resources between two readings.
#include <gtest/gtest.h>

#include "train/worker/iteration_meter.hpp"

namespace cohort {
namespace {

TEST(IterationMeter, SharesAreWhatWasGotOfWhatWasWanted) {
    const LoadCounters before{.at_s = 10, .cpu_s = 5, .runnable_s = 1, .throttled_s = 2};
    LoadCounters after = before;
    after.at_s = 11;
    EXPECT_EQ(use_between(before, after).cpu_share, 1);  // it wanted nothing
    after.cpu_s = 5.3;
    EXPECT_EQ(use_between(before, after).cpu_share, 1);
    after.runnable_s = 1.1;
    EXPECT_NEAR(use_between(before, after).cpu_share, 0.75, 1e-9);
    after.throttled_s = 2.3;  // longer than it waited for a processor
    EXPECT_NEAR(use_between(before, after).cpu_share, 0.5, 1e-9);
}

TEST(IterationMeter, TheHostsFiguresAreRatesOfTheirOwnTime) {
    const LoadCounters before{
        .at_s = 10, .host_at_s = 9, .host_busy_s = 1, .host_total_s = 40, .host_rx_bytes = 100};
    LoadCounters after = before;
    after.at_s = 10.1;
    EXPECT_EQ(use_between(before, after).host_busy, 0);
    after.host_at_s = 11;
    after.host_total_s = 48;
    after.host_busy_s = 3;
    after.host_steal_s = 0.8;
    after.host_rx_bytes = 1100;
    const ResourceUse use = use_between(before, after);
    EXPECT_DOUBLE_EQ(use.host_busy, 0.25);
    EXPECT_DOUBLE_EQ(use.host_steal, 0.1);
    EXPECT_DOUBLE_EQ(use.host_rx_bytes_s, 500);
    EXPECT_EQ(use.host_tx_bytes_s, 0);
}

TEST(IterationMeter, MeasuresItself) {
    IterationMeter meter;
    for (int i = 0; i < 100; ++i) {
        const ResourceUse use = meter.use();
        EXPECT_GE(use.cpu_share, 0);
        EXPECT_LE(use.cpu_share, 1);
    }
    EXPECT_GT(meter.take_cost_s(), 0);
    EXPECT_EQ(meter.take_cost_s(), 0);
}

}  // namespace
}  // namespace cohort
