// What staleness costs: the prior, the stability limit against simulated recursions, the model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>
#include <numbers>

#include "cohort/core/error.hpp"
#include "cohort/sched/efficiency.hpp"

namespace cohort {
namespace {

TEST(StalenessPrior, WorkedByHand) {
    const StalenessPrior prior;
    EXPECT_DOUBLE_EQ(prior.efficiency({}), 1);
    EXPECT_DOUBLE_EQ(prior.efficiency({.mean_lag = 1}), 1 / 1.3);
    EXPECT_DOUBLE_EQ(prior.efficiency({.mean_lag = 0.5}), 1 / 1.15);
}

TEST(BatchEfficiency, WorkedByHand) {
    EXPECT_DOUBLE_EQ(batch_efficiency(512, 512, 512), 1);
    EXPECT_DOUBLE_EQ(batch_efficiency(512, 512, 1536), 0.5);
    EXPECT_DOUBLE_EQ(batch_efficiency(512, 512, 0), 2);
}

/// Steps of 1/n of a reference batch on a quadratic with gradients that are `lag` old.
bool converges(double k, double lag, double momentum) {
    constexpr int kSteps = 200;  // per reference batch
    const auto delay = static_cast<std::size_t>(std::lround(lag * kSteps));
    const double c = momentum > 0 ? -std::log(momentum) : 0;
    std::deque<double> past(delay + 1, 1.0);
    double theta = 1;
    double speed = 0;
    double early = 0;
    double late = 0;
    constexpr int kBatches = 200;
    for (int i = 0; i < kBatches * kSteps; ++i) {
        const double gradient = past.front();
        if (momentum > 0) {
            speed += (-c * speed - c * k * gradient) / kSteps;
            theta += speed / kSteps;
        } else {
            theta -= k * gradient / kSteps;
        }
        past.push_back(theta);
        past.pop_front();
        double& most = i < kBatches * kSteps / 2 ? early : late;
        if (i > kBatches * kSteps / 4) {
            most = std::max(most, std::abs(theta));
        }
        if (!(std::abs(theta) < 1e12)) {
            return false;
        }
    }
    return late < early;
}

TEST(StabilityLimit, IsWhereDelayedStepsCeaseToConverge) {
    for (const double momentum : {0.0, 0.5, 0.9}) {
        for (const double lag : {0.3, 0.9, 2.0}) {
            const double limit = stability_limit(lag, momentum, false);
            EXPECT_TRUE(converges(0.9 * limit, lag, momentum)) << momentum << ", " << lag;
            EXPECT_FALSE(converges(1.1 * limit, lag, momentum)) << momentum << ", " << lag;
        }
    }
    EXPECT_DOUBLE_EQ(stability_limit(0.5, 0, false), std::numbers::pi);
    EXPECT_DOUBLE_EQ(stability_limit(0.5, 0.9, true), std::numbers::pi) << "as without momentum";
    EXPECT_EQ(stability_limit(0, 0.9, false), std::numeric_limits<double>::infinity());
}

TEST(EfficiencyModel, IsOneWithoutLagWhateverElse) {
    for (const double value : EfficiencyModel::terms_of({.mean_lag = 0,
                              .max_lag = 0,
                              .momentum = 0.9,
                              .step_curvature = 0.3,
                              .noise_ratio = 4})) {
        EXPECT_EQ(value, 0);
    }
}

TEST(EfficiencyModel, AddsUpItsTerms) {
    const EfficiencyModel model({.trained_on = "", .terms = {"lag", "use"}, .weights = {-0.5, -2}});
    const StalenessFeatures features{.mean_lag = 0.5, .step_curvature = 0.1, .noise_ratio = 1};
    const double use = 0.1 / std::numbers::pi;
    EXPECT_NEAR(model.efficiency(features), std::exp(-0.25 - 2 * use), 1e-12);
    StalenessFeatures unknown = features;
    unknown.step_curvature = 0;
    EXPECT_EQ(model.efficiency(unknown), StalenessPrior().efficiency(unknown));
    StalenessFeatures far = features;
    far.mean_lag = 100;
    EXPECT_EQ(model.efficiency(far), EfficiencyModel::kLeast);
    const EfficiencyModel better({.trained_on = "", .terms = {"lag"}, .weights = {0.5}});
    EXPECT_EQ(better.efficiency(unknown), 1) << "staleness never helps";
    EXPECT_THROW(EfficiencyModel({.trained_on = "", .terms = {"moon"}, .weights = {1}}), FileError);
}

}  // namespace
}  // namespace cohort
