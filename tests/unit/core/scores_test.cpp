#include "core/scores.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;

TEST(Scores, AreThoseOfTheTask) {
    EXPECT_THAT(scores_of(Task::kClassification, 0.5, 2),
                ElementsAre(FieldsAre("accuracy", 0.5), FieldsAre("loss", 2)));
    EXPECT_THAT(scores_of(Task::kLanguage, 0.5, 2),
                ElementsAre(FieldsAre("accuracy", 0.5), FieldsAre("loss", 2),
                            FieldsAre("perplexity", std::exp(2.0))));
    EXPECT_THAT(scores_of(Task::kRegression, 0, 0.25),
                ElementsAre(FieldsAre("loss", 0.25), FieldsAre("r2", 0.75)));
}

TEST(Scores, AsText) {
    EXPECT_EQ(format_scores(Task::kClassification, 0.912, 0.24118),
              "accuracy 91.20 %, loss 0.2412");
    EXPECT_EQ(format_scores(Task::kLanguage, 0.5, 0),
              "accuracy 50.00 %, loss 0.0000, perplexity 1.00");
    EXPECT_EQ(format_scores(Task::kRegression, 0, 1.25), "loss 1.2500, R2 -0.2500");
}

}  // namespace
}  // namespace cohort
