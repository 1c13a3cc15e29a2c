// What staleness costs: the prior, the model, the best scale.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cohort/core/error.hpp"
#include "cohort/sched/efficiency.hpp"

namespace cohort {
namespace {

TEST(StalenessPrior, WorkedByHand) {
    const EfficiencyModel prior;
    EXPECT_DOUBLE_EQ(prior.efficiency({}), 1);
    EXPECT_DOUBLE_EQ(prior.efficiency({.mean_lag = 1}), 1 / 1.1);
    EXPECT_DOUBLE_EQ(prior.efficiency({.mean_lag = 0.5}), 1 / 1.025);
    EXPECT_DOUBLE_EQ(prior.efficiency({.mean_lag = 1, .lr_scale = 0.5}),
                     std::pow(0.5, 0.3) / 1.025);
}

/// Before anything is known of a network its parameters move little meanwhile: lag times scale is a
/// quarter of a reference batch at most, as far as there are scales.
TEST(StalenessPrior, IsCarefulWhileNothingIsMeasuredOfANetwork) {
    const EfficiencyModel prior;
    EXPECT_EQ(prior.best_scale({.mean_lag = 0.2, .learns = true}).scale, 1);
    EXPECT_EQ(prior.best_scale({.mean_lag = 0.4, .learns = true}).scale, 0.5);
    EXPECT_EQ(prior.best_scale({.mean_lag = 3, .learns = true}).scale, 0.25);
    EXPECT_EQ(prior.best_scale({.mean_lag = 0.4}).scale, 1) << "times alone";
    const StalenessFeatures known{
        .mean_lag = 0.4, .step_curvature = 1, .noise_ratio = 1, .learns = true};
    EXPECT_EQ(prior.best_scale(known).scale, 1);
}

TEST(BatchEfficiency, WorkedByHand) {
    EXPECT_DOUBLE_EQ(batch_efficiency(512, 512, 512), 1);
    EXPECT_DOUBLE_EQ(batch_efficiency(512, 512, 1536), 0.5);
    EXPECT_DOUBLE_EQ(batch_efficiency(512, 512, 0), 2);
}

/// Of a model whose terms are all there.
EfficiencyModel full_model() {
    return EfficiencyModel({.trained_on = "",
                            .terms = EfficiencyModel::term_names(),
                            .weights = {0.8, 0.02, 0.06, 0.4, 0.007}});
}

StalenessFeatures usual(double lag, double scale = 1) {
    return {.mean_lag = lag,
            .max_lag = lag,
            .lr_scale = scale,
            .momentum = 0.9,
            .step_curvature = 0.8,
            .noise_ratio = 0.4};
}

TEST(EfficiencyModel, LocalStepsCostNothingWithoutMomentum) {
    StalenessFeatures features = usual(0);
    features.local_steps = 8;
    const double cost = 0.007 * 7 * std::log(10) * 0.8 / 0.5;
    const double error = EfficiencyModel::kDriftError * cost;
    EXPECT_NEAR(full_model().efficiency(features), std::exp(-cost - error * error / 2), 1e-12);
    const double prior = std::exp(-EfficiencyModel::kDriftCost * 3 * std::log(10));
    EXPECT_NEAR(EfficiencyModel().efficiency(features), prior, 1e-12);
    features.noise_ratio = 0;
    EXPECT_NEAR(full_model().efficiency(features), prior, 1e-12) << "not measured";
    features.momentum = 0;
    EXPECT_DOUBLE_EQ(full_model().efficiency(features), 1);
}

TEST(EfficiencyModel, IsOneForSsgd) {
    for (const double value : EfficiencyModel::terms_of(usual(0))) {
        EXPECT_EQ(value, 0);
    }
    EXPECT_EQ(full_model().efficiency(usual(0)), 1);
    EXPECT_LT(full_model().efficiency(usual(0, 0.5)), 1) << "a smaller rate costs something";
}

TEST(EfficiencyModel, AddsUpItsTerms) {
    const double noise = std::log1p(0.4);
    const double inertia = std::log(10);
    const double bounce = 0.8 / 0.5;
    const double lag = 0.9 * 0.5;  // at half the rate
    EXPECT_NEAR(full_model().efficiency(usual(0.9, 0.5)),
                std::exp(-(0.8 * noise + 0.02 * lag * bounce + 0.06 * lag * lag * inertia * bounce +
                           0.4 * lag * inertia * bounce)),
                1e-12);
    StalenessFeatures ahead = usual(0.9);
    ahead.look_ahead = true;
    EXPECT_GT(full_model().efficiency(ahead), full_model().efficiency(usual(0.9)));
    EXPECT_EQ(full_model().efficiency(usual(100)), EfficiencyModel::kLeast);
}

TEST(EfficiencyModel, IsThePriorWhereNothingIsMeasured) {
    StalenessFeatures unknown = usual(0.5, 0.5);
    unknown.step_curvature = 0;
    EXPECT_EQ(full_model().efficiency(unknown), EfficiencyModel().efficiency(unknown));
    unknown = usual(0.5, 0.5);
    unknown.noise_ratio = 0;
    EXPECT_EQ(full_model().efficiency(unknown), EfficiencyModel().efficiency(unknown));
}

TEST(EfficiencyModel, RefusesWhatItDoesNotKnow) {
    EXPECT_THROW(EfficiencyModel({.trained_on = "", .terms = {"moon"}, .weights = {1}}), FileError);
    for (const double weight : {-0.1, std::nan("")}) {
        EXPECT_THROW(
            EfficiencyModel({.trained_on = "", .terms = {"lag*bounce"}, .weights = {weight}}),
            FileError)
            << "staleness never helps";
    }
}

class Costs : public testing::TestWithParam<const EfficiencyModel*> {};

/// More lag is never better at the same scale, nor with the best one; and ssgd keeps its rate.
TEST_P(Costs, NeverFallWithTheLag) {
    const EfficiencyModel& cost = *GetParam();
    EXPECT_EQ(cost.best_scale(usual(0)).scale, 1);
    EXPECT_EQ(cost.best_scale(usual(0)).efficiency, 1);
    for (const double momentum : {0.0, 0.9}) {
        for (const double curvature : {0.1, 1.0, 4.0}) {
            for (const double noise : {0.05, 0.5, 5.0}) {
                StalenessFeatures f{.momentum = momentum,
                                    .look_ahead = true,
                                    .step_curvature = curvature,
                                    .noise_ratio = noise};
                double before = 1;
                double scale = 1;
                for (f.mean_lag = 0; f.mean_lag < 4; f.mean_lag += 0.25) {
                    const ScaledEfficiency best = cost.best_scale(f);
                    EXPECT_LE(best.efficiency, before);
                    EXPECT_LE(best.scale, scale) << "a smaller rate, the more it lags";
                    before = best.efficiency;
                    scale = best.scale;
                    for (const double one : kLrScales) {
                        f.lr_scale = one;
                        EXPECT_LE(cost.efficiency(f), best.efficiency);
                    }
                }
            }
        }
    }
}

const EfficiencyModel kPrior;
const EfficiencyModel kModel = full_model();
INSTANTIATE_TEST_SUITE_P(Staleness, Costs, testing::Values(&kPrior, &kModel));

TEST(BestScale, IsSmallerWhereStepsBounce) {
    StalenessFeatures calm = usual(0.9);
    calm.step_curvature = 0.1;
    StalenessFeatures wild = usual(0.9);
    wild.step_curvature = 2;
    wild.noise_ratio = 0.1;
    EXPECT_EQ(kModel.best_scale(calm).scale, 1);
    EXPECT_LT(kModel.best_scale(wild).scale, 1);
}

}  // namespace
}  // namespace cohort
