#include <gtest/gtest.h>

#include <vector>

#include "train/run/run_records.hpp"

namespace cohort {
namespace {

const std::vector<PredictorScore> kScores{{.predictor = "auto",
                                           .uses = "ewma",
                                           .horizon = 1,
                                           .predictions = 8,
                                           .relative_error = 0.125,
                                           .precision = 0.75,
                                           .recall = 0.5,
                                           .f1 = 0.6},
                                          {.predictor = "auto", .uses = "ewma", .horizon = 10}};

TEST(PredictorScoresText, OneObjectPerHorizon) {
    EXPECT_EQ(predictor_scores_json({}).dump(), "[]");
    EXPECT_EQ(
        predictor_scores_json({kScores.data(), 1}).dump(),
        R"([{"predictor":"auto","uses":"ewma","horizon":1,"predictions":8,"relative_error":0.125,)"
        R"("precision":0.75,"recall":0.5,"f1":0.6}])");
}

TEST(PredictorScoresText, ALineForPeople) {
    EXPECT_EQ(predictor_scores_line({}), "");
    EXPECT_EQ(predictor_scores_line(kScores),
              "predictor auto (now ewma): 1 ahead off by 12.5 %, F1 of stragglers 0.60; 10 ahead "
              "off by 0.0 "
              "%, F1 of stragglers 0.00");
}

}  // namespace
}  // namespace cohort
