// What the choosers are made of: costs of mini-batches, balanced batches, when a change pays, the
// regressor of star-ml.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "batch_balance.hpp"
#include "cohort/sched/rate_regressor.hpp"
#include "plan_space.hpp"
#include "switch_guard.hpp"
#include "worker_costs.hpp"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::Le;
using ::testing::SizeIs;

/// Records of one worker.
class OneWorker {
public:
    OneWorker() : history_(1, 64), costs(1, 64, 0) {}
    void took(double seconds, std::int64_t samples, double push_s = 0) {
        history_.add({.iteration = ++iteration_,
                      .samples = samples,
                      .compute_s = seconds,
                      .push_s = push_s});
        costs.learn(history_);
    }

private:
    TelemetryHistory history_;
    std::int64_t iteration_ = 0;

public:
    WorkerCosts costs;
};

TEST(WorkerCosts, WorkIsProportionalUntilBatchesDiffer) {
    OneWorker one;
    one.took(2, 64);
    one.took(2, 64);
    EXPECT_NEAR(one.costs.work(0).at(32), 1, 1e-9);
}

TEST(WorkerCosts, ADelayShowsWhenTheBatchChanges) {
    OneWorker one;
    for (int i = 0; i < 5; ++i) {
        one.took(2, 64);  // 1 s of them whatever the batch
    }
    one.took(1.5, 32);
    EXPECT_NEAR(one.costs.work(0).at(32), 1.5, 0.05);
    EXPECT_NEAR(one.costs.work(0).at(64), 2, 0.05);
    EXPECT_NEAR(one.costs.work(0).fixed_s, 1, 0.1);
}

TEST(WorkerCosts, AChangeOfSpeedBeginsANewLine) {
    OneWorker one;
    for (int i = 0; i < 5; ++i) {
        one.took(1, 64);
    }
    one.took(5, 64);
    EXPECT_NEAR(one.costs.work(0).at(64), 5, 1e-9) << "at once";
    one.took(1.25, 16);
    EXPECT_NEAR(one.costs.work(0).at(16), 1.25, 0.01);
    one.took(0.25, 16);
    EXPECT_NEAR(one.costs.work(0).at(64), 1, 0.05) << "quick again";
}

TEST(WorkerCosts, TransfersAreNotScaledWithTheBatch) {
    OneWorker one;
    one.took(1, 64, 0.2);
    one.took(0.25, 16, 0.2);
    EXPECT_NEAR(one.costs.transfer_s(0), 0.2, 1e-9);
    EXPECT_NEAR(one.costs.work(0).at(16), 0.25, 0.02);
}

TEST(WorkerCosts, WhoComesBackCountsFromTheStart) {
    TelemetryHistory history(1, 64);
    WorkerCosts costs(1, 64, 0);
    history.add({.iteration = 5000, .samples = 64, .compute_s = 1});
    costs.learn(history);
    history.forget(0);
    costs.forget(0);
    EXPECT_FALSE(costs.known(0));
    history.add({.iteration = 1, .samples = 64, .compute_s = 3});
    costs.learn(history);
    ASSERT_TRUE(costs.known(0));
    EXPECT_NEAR(costs.work(0).at(64), 3, 1e-9);
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

TEST(PlanShapes, AreAtMostTwentyForAnyCluster) {
    for (const int workers : {1, 2, 3, 8, 64, 1024}) {
        for (const int slow : {0, 1, 2, 300}) {
            EXPECT_THAT(plan_shapes(Architecture::kServers, workers, slow), SizeIs(Le(20U)));
            EXPECT_THAT(plan_shapes(Architecture::kRing, workers, slow), SizeIs(Le(20U)));
        }
    }
}

TEST(SwitchGuard, AChangeWaitsUntilItsPriceIsPaid) {
    SwitchGuard guard;
    guard.cost(3);
    const SwitchGuard::Wish third{.gain = 0.5};  // a third of the time is lost: 9 s for the price
    int looks = 0;
    while (!guard.look(looks, 1, &third)) {
        ++looks;
    }
    EXPECT_EQ(looks, 9);
}

TEST(SwitchGuard, AnExpectedLifePaysInAdvance) {
    SwitchGuard guard;
    guard.cost(3);
    const SwitchGuard::Wish third{.gain = 0.5, .life_s = 20};
    EXPECT_FALSE(guard.look(0, 1, nullptr));
    EXPECT_TRUE(guard.look(1, 1, &third));
}

TEST(SwitchGuard, WhatIsUndoneAtOnceMakesItPatient) {
    SwitchGuard guard;
    SwitchGuard::Wish wish{.gain = 1};
    int changes = 0;
    for (int second = 0; second < 1000; ++second) {  // two seconds each way
        wish.back = changes > 0;
        const bool wanted = second / 2 % 2 == changes % 2;
        if (guard.look(second, 1, wanted ? &wish : nullptr)) {
            guard.changed(second, wish);
            ++changes;
        }
    }
    EXPECT_LE(changes, 4);
}

TEST(SwitchGuard, SmallGainsAndNoiseAreNoReason) {
    SwitchGuard guard;
    const SwitchGuard::Wish small{.gain = 0.04};
    const SwitchGuard::Wish noisy{.gain = 0.08, .noise = 0.05};
    for (int second = 0; second < 100; ++second) {
        EXPECT_FALSE(guard.look(second, 1, &small));
        EXPECT_FALSE(guard.look(100 + second, 1, &noisy));
    }
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
