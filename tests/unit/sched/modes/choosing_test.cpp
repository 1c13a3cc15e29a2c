// What the choosers are made of: balanced batches, plans to choose from, the regressor of star-ml.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cohort/sched/rate_regressor.hpp"
#include "sched/modes/adaptive/plan_ranking.hpp"
#include "sched/modes/adaptive/plan_space.hpp"
#include "sched/modes/batch_balance.hpp"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::Le;
using ::testing::SizeIs;

/// What one plan that does not wait has shown holds for all that do not, until it fades.
TEST(PaceRecord, HoldsForPlansOfAKindAndFades) {
    PaceRecord paces(100);
    EXPECT_EQ(paces.of(PaceKind::kAll), 1);
    paces.went(PaceKind::kAll, 1, 100, 100);
    paces.went(PaceKind::kSome, 1, 60, 100);  // 60 in place of 100 samples per second
    EXPECT_NEAR(paces.of(PaceKind::kSome), 0.8, 1e-9) << "one window is half of what is held";
    paces.went(PaceKind::kSome, 1, 60, 100);
    EXPECT_NEAR(paces.of(PaceKind::kSome), 0.7, 1e-3);
    EXPECT_NEAR(paces.of(PaceKind::kAll), 1, 0.01) << "another kind";
    EXPECT_EQ(paces.of(PaceKind::kLocal), 1) << "never in force: as predicted, so that it is tried";
    paces.went(PaceKind::kSome, 1, 50, 0);
    EXPECT_NEAR(paces.of(PaceKind::kSome), 0.7, 1e-3) << "nothing was predicted";
    for (int window = 0; window < 1500; ++window) {
        paces.went(PaceKind::kAll, 1, 100, 100);
    }
    EXPECT_NEAR(paces.of(PaceKind::kSome), 1, 0.01) << "it is worth another trial";
}

/// When the plan changes, every worker first ends its current iteration, which began under the old
/// plan. The throughput until then says nothing about the new plan.
TEST(PaceRecord, WhatIsDoneDuringAChangeDoesNotCount) {
    PaceRecord paces(100);
    paces.restart(25);
    paces.went(PaceKind::kSome, 1, 10, 100);  // where 100 samples were predicted
    paces.went(PaceKind::kSome, 1, 15, 100);
    EXPECT_EQ(paces.of(PaceKind::kSome), 1) << "the first 25 samples";
    paces.went(PaceKind::kSome, 1, 90, 100);
    EXPECT_NEAR(paces.of(PaceKind::kSome), 0.95, 1e-9);
    paces.went(PaceKind::kSome, 0.5, 5, 100);
    paces.restart(80);  // after local steps, say
    paces.went(PaceKind::kAll, 2, 30, 100);
    paces.went(PaceKind::kAll, 2, 50, 100);
    EXPECT_EQ(paces.of(PaceKind::kAll), 1) << "the first samples of another plan";
    paces.went(PaceKind::kAll, 1, 110, 100);
    EXPECT_NEAR(paces.of(PaceKind::kAll), 1.05, 1e-9);
}

TEST(BalancedBatches, TheSlowestIsDoneAsEarlyAsItCanBe) {
    const std::vector<CostLine> costs{{.fixed_s = 0, .sample_s = 1},
                                      {.fixed_s = 0, .sample_s = 2},
                                      {.fixed_s = 0, .sample_s = 1}};
    const auto samples = balanced_batches(costs, 60);  // 72 36 72: a second per sample and 72 s
    EXPECT_EQ(std::accumulate(samples.begin(), samples.end(), std::int64_t{0}), 180);
    for (std::size_t i = 0; i < samples.size(); ++i) {
        EXPECT_THAT(costs[i].at(static_cast<double>(samples[i])), Le(74)) << i;
    }
}

TEST(BalancedBatches, WhoIsLateWhateverItDoesGetsTheLeast) {
    const std::vector<CostLine> costs{{.fixed_s = 0, .sample_s = 1},
                                      {.fixed_s = 500, .sample_s = 1},
                                      {.fixed_s = 0, .sample_s = 1}};
    EXPECT_THAT(balanced_batches(costs, 64), ElementsAre(92, 8, 92));
}

TEST(BalancedBatches, EqualsGetEqualBatches) {
    const std::vector<CostLine> costs(5, {.fixed_s = 0.1, .sample_s = 0.01});
    EXPECT_THAT(balanced_batches(costs, 64), ElementsAre(64, 64, 64, 64, 64));
}

TEST(PlanShapes, AreFewForAnyCluster) {
    for (const int workers : {1, 2, 3, 8, 64, 1024}) {
        for (const int slow : {0, 1, 300}) {
            for (const Architecture architecture : {Architecture::kServers, Architecture::kRing}) {
                EXPECT_THAT(plan_shapes(architecture, workers, slow, false), SizeIs(Le(10U)));
                EXPECT_THAT(plan_shapes(architecture, workers, slow, true), SizeIs(Le(18U)));
            }
        }
    }
}

TEST(PlanShapes, LocalStepsAreConsideredWhereTheirCostIsKnown) {
    const auto local = [](bool known) {
        ModeSetting setting;
        setting.job.local_steps = known;
        const bool rated = PlanRater(setting).rates_local_steps();
        return std::ranges::count(plan_shapes(Architecture::kServers, 8, 0, rated),
                                  PaceKind::kLocal, &PlanShape::kind);
    };
    EXPECT_EQ(local(false), 0);
    EXPECT_EQ(local(true), 8) << "2, 4, 8, 16, with equal and with balanced batches";
}

/// The whole transfer once, whatever the number of steps; of a gradient's only a part is seen.
TEST(LoadEstimate, LocalStepsMoveTheParametersOnce) {
    const LoadEstimate load{.cost = {{.fixed_s = 0.3, .sample_s = 0.01}},
                            .visible_transfer_s = {0.2},
                            .transfer_s = {0.5}};
    EXPECT_DOUBLE_EQ(load.own_s(0, 100, 1), 1.3);
    EXPECT_DOUBLE_EQ(load.own_s(0, 100, 4), 4 * 1.1 + 0.5);
}

TEST(RateRegressor, BeginsWithTheTimingModelAndLearnsWhatItMisses) {
    RateRegressor regressor;
    RateFeatures x;
    x[RateFeatures::kOne] = 1;
    x[RateFeatures::kTimedPace] = std::log(0.8);
    x[RateFeatures::kSampleWorth] = std::log(0.9);
    EXPECT_NEAR(std::exp(regressor.predict(x)), 0.72, 1e-12);
    x[RateFeatures::kCohorts] = 1;  // asgd goes at 0.7 of its pace here, others as timed
    RateFeatures other = x;
    other[RateFeatures::kCohorts] = 0.125;
    for (int i = 0; i < 200; ++i) {
        regressor.learn(x, std::log(0.72 * 0.7));
        regressor.learn(other, std::log(0.72));
    }
    EXPECT_NEAR(std::exp(regressor.predict(x)), 0.72 * 0.7, 0.02);
    EXPECT_NEAR(std::exp(regressor.predict(other)), 0.72, 0.02);
}

TEST(RateRegressor, BeginsWithWhatAnEarlierRunHasTaught) {
    NamedWeights taught{.trained_on = "", .terms = {}, .weights = {}};
    const auto& names = RateFeatures::kNames;
    taught.terms = {names.begin(), names.end()};
    const RateRegressor::Weights start = RateRegressor::start_weights();
    taught.weights = {start.begin(), start.end()};
    taught.weights[RateFeatures::kOne] = -0.2;
    RateFeatures x;
    x[RateFeatures::kOne] = 1;
    x[RateFeatures::kTimedPace] = std::log(0.8);
    const RateRegressor regressor(RateRegressor::weights_of(taught));
    EXPECT_NEAR(regressor.predict(x), std::log(0.8) - 0.2, 1e-12);
}

TEST(RateFeatures, TimesAreRelative) {
    RateFeatures x;
    x.set_times({1, 1, 1, 1, 1, 1, 1, 2});
    EXPECT_NEAR(x[RateFeatures::kSpread], (2 - 1.125) / 1.125, 1e-12);
    EXPECT_NEAR(x[RateFeatures::kSlowest], std::log(2 / 1.125), 1e-12);
    RateFeatures scaled;
    scaled.set_times({10, 10, 10, 10, 10, 10, 10, 20});
    EXPECT_EQ(x.values, scaled.values);
}

}  // namespace
}  // namespace cohort
