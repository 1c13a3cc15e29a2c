// The efficiency model's training: curves and regressions whose answers are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cohort/core/error.hpp"
#include "cohort/data/text_file.hpp"
#include "cohort/report/efficiency_training.hpp"
#include "cohort/sim/efficiency_file.hpp"
#include "support/temp_folder.hpp"

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

/// log e_s = -0.7 lag memory - 0.2 lag, and a little noise.
std::vector<EfficiencyRow> known_rows() {
    std::vector<EfficiencyRow> rows;
    std::mt19937_64 dice(5);
    std::normal_distribution<double> noise(0, 0.01);
    for (const char* model : {"a", "b", "c"}) {
        for (const double momentum : {0.0, 0.5, 0.9}) {
            for (const double lag : {0.25, 0.5, 0.9}) {
                for (const double curvature : {0.2, 0.9}) {
                    EfficiencyRow row{.model = model, .lr = 0.1 * curvature};
                    row.features = {.mean_lag = lag,
                                    .max_lag = 2 * lag,
                                    .momentum = momentum,
                                    .step_curvature = curvature,
                                    .noise_ratio = std::abs(100 * noise(dice))};
                    row.efficiency =
                        std::exp(0.7 * lag * std::log1p(-momentum) - 0.2 * lag + noise(dice));
                    rows.push_back(row);
                }
            }
        }
    }
    return rows;
}

TEST(EfficiencyTraining, FindsTheTermsThatMadeTheData) {
    const std::vector<EfficiencyRow> rows = known_rows();
    const std::vector<std::string> terms = choose_terms(rows);
    ASSERT_GE(terms.size(), 2U);
    EXPECT_EQ(terms.front(), "lag*memory");
    EXPECT_THAT(terms, testing::Contains("lag"));
    const EfficiencyCoefficients found = fit_efficiency(rows, {"lag*memory", "lag"});
    EXPECT_NEAR(found.weights[0], -0.7, 0.05);
    EXPECT_NEAR(found.weights[1], -0.2, 0.05);
    for (const HoldOut what : {HoldOut::kModel, HoldOut::kSetting}) {
        const EfficiencyScore score = score_efficiency(rows, predict_held_out(rows, terms, what));
        EXPECT_GT(score.correlation, 0.97);
        EXPECT_LT(score.error, 0.05);
    }
    const std::vector<double> same(rows.size(), 1.0);
    EXPECT_EQ(score_efficiency(rows, same).correlation, 0);
    EXPECT_GT(score_efficiency(rows, same).error, 0.3);
}

/// Neither terms nor weights know what they are held to.
TEST(EfficiencyTraining, APredictionDoesNotDependOnTheRowsLeftOut) {
    std::vector<EfficiencyRow> rows = known_rows();
    const std::vector<double> before = predict_chosen_without(rows, HoldOut::kModel);
    EXPECT_GT(score_efficiency(rows, before).correlation, 0.97);
    for (EfficiencyRow& row : rows) {  // of "c" other terms tell
        if (row.model == "c") {
            row.efficiency = std::exp(-row.features.mean_lag * row.features.step_curvature);
        }
    }
    const std::vector<double> after = predict_chosen_without(rows, HoldOut::kModel);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].model == "c") {
            EXPECT_EQ(after[i], before[i]);
        }
    }
    EXPECT_NE(after, before) << "the others' predictions come from them";
}

/// What is better than ssgd does not make the others look better than they are.
TEST(EfficiencyTraining, WhatIsAboveOneIsMetByAnyPredictionAboveOne) {
    std::vector<EfficiencyRow> rows = known_rows();
    for (EfficiencyRow& row : rows) {
        if (row.features.momentum == 0) {
            row.efficiency = 4;
        }
    }
    const EfficiencyCoefficients found = fit_efficiency(rows, {"lag*memory"});
    EXPECT_NEAR(found.weights[0], -0.8, 0.1);
}

TEST(EfficiencyFile, IsReadAsItWasWritten) {
    const TempFolder folder;
    const std::string file = folder.file("model.toml");
    const EfficiencyCoefficients written{.trained_on = "a \"test\"",
                                         .terms = {"lag*memory", "lag"},
                                         .weights = {-0.1234567890123, -2}};
    replace_text_file(file, to_toml(written));
    const auto read = load_efficiency(file);
    EXPECT_EQ(read->trained_on, written.trained_on);
    const StalenessFeatures features{.mean_lag = 0.5, .momentum = 0.9};
    EXPECT_EQ(EfficiencyModel(*read).efficiency(features),
              EfficiencyModel(written).efficiency(features));
    replace_text_file(file, "[weights]\nmoon = 1\n");
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
}

}  // namespace
}  // namespace cohort
