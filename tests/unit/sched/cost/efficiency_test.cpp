#include "cohort/sched/efficiency.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace cohort {
namespace {

TEST(StalenessEfficiency, WorkedByHand) {
    EXPECT_DOUBLE_EQ(staleness_efficiency({}), 1) << "ssgd";
    EXPECT_DOUBLE_EQ(staleness_efficiency({.mean_square_lag = 1}), std::exp(-0.36));
    // Eight workers: quorum:6 makes three updates of a reference batch, asgd eight.
    const StalenessFeatures quorum{
        .mean_square_lag = 0.18, .update_share = 1.0 / 3, .momentum = 0.9};
    EXPECT_NEAR(staleness_efficiency(quorum), 1.0210, 5e-5);
    const StalenessFeatures asgd{.mean_square_lag = 0.76, .update_share = 1.0 / 8, .momentum = 0.9};
    EXPECT_NEAR(staleness_efficiency(asgd), 0.9706, 5e-5);
    EXPECT_DOUBLE_EQ(staleness_efficiency({.update_share = 4}), 1) << "no update counts as larger";
}

/// Samples to 85 % on Fashion-MNIST relative to ssgd, smallcnn and mlp (docs/efficiency.md).
TEST(StalenessEfficiency, LocalStepsCostWhatTheyCostInTraining) {
    struct Measured {
        double steps, momentum, samples;
    };
    for (const Measured& one :
         {Measured{4, 0.9, 1.28}, Measured{4, 0.9, 1.29}, Measured{8, 0.9, 2.05},
          Measured{8, 0.9, 1.80}, Measured{4, 0, 1.12}, Measured{4, 0, 1.11}, Measured{8, 0, 1.20},
          Measured{8, 0, 1.22}, Measured{16, 0, 1.46}}) {
        const double efficiency =
            staleness_efficiency({.local_steps = one.steps, .momentum = one.momentum});
        EXPECT_NEAR(1 / efficiency / one.samples, 1, 0.08) << one.steps << " " << one.momentum;
    }
}

TEST(BatchEfficiency, WorkedByHand) {
    EXPECT_DOUBLE_EQ(batch_efficiency(512, 512, 512), 1);
    EXPECT_DOUBLE_EQ(batch_efficiency(512, 512, 64), 1024.0 / 576);
    EXPECT_DOUBLE_EQ(batch_efficiency(512, 512, 0), 2);
}

}  // namespace
}  // namespace cohort
