#include "cohort/sched/efficiency.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace cohort {
namespace {

TEST(StalenessEfficiency, WorkedByHand) {
    EXPECT_DOUBLE_EQ(staleness_efficiency({}), 1) << "ssgd";
    EXPECT_DOUBLE_EQ(staleness_efficiency({.mean_square_lag = 1}), std::exp(-0.11));
    // Eight workers: quorum:6 makes three updates of a reference batch, asgd eight.
    EXPECT_NEAR(staleness_efficiency({.mean_square_lag = 0.18, .update_share = 1.0 / 3}), 1.0204,
                5e-5);
    EXPECT_NEAR(staleness_efficiency({.mean_square_lag = 0.76, .update_share = 1.0 / 8}), 0.9694,
                5e-5);
    EXPECT_DOUBLE_EQ(staleness_efficiency({.update_share = 4}), 1) << "no update counts as larger";
}

TEST(StalenessEfficiency, LocalStepsCostNothingWithoutMomentum) {
    EXPECT_DOUBLE_EQ(staleness_efficiency({.local_steps = 16}), 1);
    EXPECT_NEAR(staleness_efficiency({.local_steps = 4, .momentum = 0.9}),
                std::exp(-0.05 * 3 * std::log(10.0)), 1e-12);
}

TEST(BatchEfficiency, WorkedByHand) {
    EXPECT_DOUBLE_EQ(batch_efficiency(512, 512, 512), 1);
    EXPECT_DOUBLE_EQ(batch_efficiency(512, 512, 64), 1024.0 / 576);
    EXPECT_DOUBLE_EQ(batch_efficiency(512, 512, 0), 2);
}

}  // namespace
}  // namespace cohort
