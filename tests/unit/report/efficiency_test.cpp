// The efficiency model's training: curves and regressions whose answers are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "cohort/core/error.hpp"
#include "data/dataset/text_file.hpp"
#include "formats/weights_file.hpp"
#include "report/fit/efficiency_training.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort {
namespace {

TEST(RankCorrelation, WorkedByHand) {
    EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3}, {10, 100, 1000}), 1);
    EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3}, {3, 2, 1}), -1);
    // Ranks 0 1 2 3 and 1 0 3 2: 1 - 6 * 4 / (4 * 15).
    EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4}, {2, 1, 4, 3}), 0.6);
    EXPECT_DOUBLE_EQ(rank_correlation({1, 1, 1}, {1, 2, 3}), 0) << "nothing is sorted";
}

TEST(CurveRatio, IsHowMuchFasterTheSameLossIsReached) {
    const auto curve = [](double speed) {
        std::vector<double> losses;
        for (int i = 1; i <= 40; ++i) {
            losses.push_back(std::log(0.4 + 1 / (0.2 + speed * i)));
        }
        return losses;
    };
    EXPECT_NEAR(curve_ratio(curve(1), curve(1)), 1, 1e-12);
    EXPECT_NEAR(curve_ratio(curve(1), curve(0.5)), 0.5, 0.05) << "the plan is half as fast";
    EXPECT_NEAR(curve_ratio(curve(0.5), curve(1)), 2, 0.2);
    EXPECT_LT(curve_ratio(curve(1), std::vector<double>(40, std::log(20))), 0.2) << "it diverged";
}

/// log e_s = -0.8 log2(1/scale) noise - 0.1 (lag scale)^2 inertia bounce, and a little scatter.
std::vector<EfficiencyRow> known_rows() {
    std::vector<EfficiencyRow> rows;
    std::mt19937_64 dice(5);
    std::normal_distribution<double> scatter(0, 0.01);
    for (const char* model : {"a", "b", "c"}) {
        for (const double momentum : {0.5, 0.9}) {
            for (const double lag : {0.25, 0.5, 0.9}) {
                for (const double scale : kLrScales) {
                    for (const double noise : {0.2, 0.9}) {
                        EfficiencyRow row{.model = model, .lr = 0.1 * noise};
                        row.features = {.mean_lag = lag,
                                        .max_lag = 2 * lag,
                                        .lr_scale = scale,
                                        .momentum = momentum,
                                        .look_ahead = true,
                                        .step_curvature = 1.2,
                                        .noise_ratio = noise};
                        const double travel = lag * scale;
                        row.efficiency = std::exp(0.8 * std::log2(scale) * std::log1p(noise) +
                                                  0.1 * travel * travel * std::log1p(-momentum) *
                                                      1.2 / (noise + 0.1) +
                                                  scatter(dice));
                        row.pace = 1 + lag;
                        rows.push_back(row);
                    }
                }
            }
        }
    }
    return rows;
}

double weight_of(const EfficiencyCoefficients& found, const std::string& term) {
    const auto at = std::find(found.terms.begin(), found.terms.end(), term);
    return found.weights.at(static_cast<std::size_t>(at - found.terms.begin()));
}

TEST(EfficiencyTraining, FindsTheWeightsThatMadeTheData) {
    const std::vector<EfficiencyRow> rows = known_rows();
    const EfficiencyCoefficients found = fit_efficiency(rows);
    EXPECT_NEAR(weight_of(found, "rate*noise"), 0.8, 0.03);
    EXPECT_NEAR(weight_of(found, "lag^2*inertia*bounce"), 0.1, 0.02);
    EXPECT_NEAR(weight_of(found, "lag*bounce"), 0, 0.02);
    for (const HoldOut what : {HoldOut::kNothing, HoldOut::kModel, HoldOut::kSetting}) {
        const EfficiencyScore score = score_efficiency(rows, predict_held_out(rows, what));
        EXPECT_GT(score.correlation, 0.97);
        EXPECT_LT(score.error, 0.05);
        EXPECT_LT(score.mean_regret, 0.01);
    }
    const std::vector<double> same(rows.size(), 1.0);
    EXPECT_EQ(score_efficiency(rows, same).correlation, 0);
    EXPECT_GT(score_efficiency(rows, same).error, 0.2);
}

/// What seems to be better for its lag says that a lag costs nothing: weights are costs.
TEST(EfficiencyTraining, NoWeightIsNegative) {
    std::vector<EfficiencyRow> rows = known_rows();
    for (EfficiencyRow& row : rows) {
        row.efficiency = std::exp(-1 + row.features.mean_lag * row.features.lr_scale);
    }
    for (const double weight : fit_efficiency(rows).weights) {
        EXPECT_GE(weight, 0);
    }
}

TEST(EfficiencyTraining, APredictionDoesNotDependOnTheRowsLeftOut) {
    std::vector<EfficiencyRow> rows = known_rows();
    const std::vector<double> before = predict_held_out(rows, HoldOut::kModel);
    for (EfficiencyRow& row : rows) {
        if (row.model == "c") {
            row.efficiency = std::exp(-row.features.mean_lag);
        }
    }
    const std::vector<double> after = predict_held_out(rows, HoldOut::kModel);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].model == "c") {
            EXPECT_EQ(after[i], before[i]);
        }
    }
    EXPECT_NE(after, before) << "the others' predictions come from them";
}

/// What is better than ssgd does not make the others look better than they are.
TEST(EfficiencyTraining, WhatIsAboveOneCountsAsOne) {
    std::vector<EfficiencyRow> rows = known_rows();
    std::vector<EfficiencyRow> capped = rows;
    for (std::size_t i = 0; i < rows.size(); i += 5) {
        rows[i].efficiency = 4;
        capped[i].efficiency = 1;
    }
    EXPECT_EQ(fit_efficiency(rows).weights, fit_efficiency(capped).weights);
}

/// Two plans of twice and three times ssgd's pace, worth 0.8 and 0.3: 1.6, 0.9, and ssgd's 1.
TEST(EfficiencyScore, SaysWhatAChoiceLoses) {
    std::vector<EfficiencyRow> rows{{.model = "a", .efficiency = 0.8, .pace = 2},
                                    {.model = "a", .efficiency = 0.3, .pace = 3}};
    EXPECT_EQ(score_efficiency(rows, {0.9, 0.4}).mean_regret, 0);
    EXPECT_NEAR(score_efficiency(rows, {0.5, 0.9}).mean_regret, 1 - 0.9 / 1.6, 1e-12);
    EXPECT_NEAR(score_efficiency(rows, {0.4, 0.2}).mean_regret, 1 - 1 / 1.6, 1e-12) << "ssgd";
    rows.push_back({.model = "b", .efficiency = 0.5, .pace = 1.1});
    const EfficiencyScore two = score_efficiency(rows, {0.5, 0.9, 1});
    EXPECT_NEAR(two.mean_regret, (1 - 0.9 / 1.6 + 1 - 0.55) / 2, 1e-12);
    EXPECT_NEAR(two.worst_regret, 1 - 0.55, 1e-12);
}

TEST(EfficiencyFile, IsReadAsItWasWritten) {
    const TempFolder folder;
    const std::string file = folder.file("model.toml");
    const EfficiencyCoefficients written{.trained_on = "a \"test\"",
                                         .terms = {"lag*memory*bounce", "lag*bounce"},
                                         .weights = {0.1234567890123, 2}};
    replace_text_file(file, to_toml(written));
    const auto read = load_efficiency(file);
    EXPECT_EQ(read->trained_on, written.trained_on);
    const StalenessFeatures features{
        .mean_lag = 0.5, .momentum = 0.9, .step_curvature = 0.4, .noise_ratio = 0.5};
    EXPECT_EQ(EfficiencyModel(*read).efficiency(features),
              EfficiencyModel(written).efficiency(features));
    replace_text_file(file, "[weights]\nmoon = 1\n");
    EXPECT_THROW((void)load_efficiency(file), FileError);
    replace_text_file(file, "[weights]\n'lag*bounce' = -1\n");
    EXPECT_THROW((void)load_efficiency(file), FileError);
    replace_text_file(file, "weights = 3\n");
    EXPECT_THROW((void)load_efficiency(file), FileError);
    replace_text_file(file, "[weights\n");
    EXPECT_THROW((void)load_efficiency(file), FileError);
}

TEST(EfficiencyFile, TheShippedOneKnowsThatStalenessCosts) {
    const EfficiencyModel model(*load_efficiency(""));
    const StalenessFeatures fresh{.momentum = 0.9, .step_curvature = 0.4, .noise_ratio = 0.5};
    EXPECT_EQ(model.efficiency(fresh), 1);
    StalenessFeatures half = fresh;
    half.mean_lag = half.max_lag = 0.5;
    StalenessFeatures whole = fresh;
    whole.mean_lag = whole.max_lag = 0.9;
    EXPECT_LT(model.efficiency(half), 0.98);
    EXPECT_LT(model.efficiency(whole), model.efficiency(half));
    StalenessFeatures ahead = whole;
    ahead.look_ahead = true;
    EXPECT_GT(model.efficiency(ahead), model.efficiency(whole)) << "the look-ahead helps";
    StalenessFeatures wild = whole;
    wild.noise_ratio = 0.05;
    EXPECT_EQ(model.best_scale(fresh).scale, 1);
    EXPECT_LT(model.best_scale(wild).scale, 1) << "steps that bounce are made smaller";
}

}  // namespace
}  // namespace cohort
