#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "cohort/sched/predictor.hpp"
#include "support/sched/own_times.hpp"

namespace cohort {
namespace {

using test::hog_s;
using test::OwnTimes;

std::unique_ptr<Predictor> predictor(const std::string& name, int workers) {
    return make_predictor(name, workers, OwnTimes::kBatch, nullptr);
}

TEST(Predictors, LastRepeatsTheNewest) {
    const auto last = predictor("last", 2);
    OwnTimes times(2);
    last->add(times.record(0, 3));
    last->add(times.record(0, 2));
    const Forecast forecast = last->predict();
    EXPECT_EQ(forecast.own_s.at(0), std::vector<float>(kMaxHorizon, 2));
    EXPECT_TRUE(forecast.own_s.at(1).empty()) << "nothing is known of it";
    EXPECT_EQ(forecast.mean(0, 1), 2);
    EXPECT_EQ(forecast.mean(0, kMaxHorizon), 2);
    EXPECT_EQ(forecast.mean(1, 1), 0);
    last->forget(0);
    EXPECT_TRUE(last->predict().own_s.at(0).empty());
}

TEST(Predictors, EwmaFollowsAJumpAfterThree) {
    const auto ewma = predictor("ewma", 1);
    OwnTimes times(1);
    ewma->add(times.record(0, 1));
    ewma->add(times.record(0, 1.5));
    EXPECT_NEAR(ewma->predict().mean(0, 1), 1.1, 1e-6);
    for (int i = 0; i < 3; ++i) {
        ewma->add(times.record(0, 4));
    }
    EXPECT_EQ(ewma->predict().mean(0, 1), 4);
}

TEST(Predictors, UnknownNamesAndMissingModels) {
    EXPECT_THROW((void)predictor("crystal-ball", 1), UsageError);
    EXPECT_THROW((void)predictor("lstm", 1), UsageError);
}

TEST(Predictors, WithoutAForecastNothingIsKnown) {
    EXPECT_EQ(Forecast().mean(3, 1), 0);
    EXPECT_EQ(Forecast().mean(3, 10), 0);
}

TEST(Predictors, ForecastMeansAreOfTheFirstIterations) {
    Forecast forecast;
    forecast.own_s = {{1, 2, 3}};
    EXPECT_DOUBLE_EQ(forecast.mean(0, 2), 1.5);
    EXPECT_DOUBLE_EQ(forecast.mean(0, 30), 2);
}

/// Of worker 1; worker 0 is always quick.
struct HogScores {
    std::vector<PredictorScore> scores;
    [[nodiscard]] double f1(std::size_t horizon) const { return scores.at(horizon).f1; }
    [[nodiscard]] double error(std::size_t horizon) const {
        return scores.at(horizon).relative_error;
    }
};
HogScores on_a_hog(const std::string& name, double noise, int iterations = 1800) {
    const auto under_test = predictor(name, 2);
    PredictorScores scores(name, 2, OwnTimes::kBatch);
    OwnTimes times(2);
    Rng random(7, RngPurpose::kPattern, 1);
    for (int t = 0; t < iterations; ++t) {
        for (int worker = 0; worker < 2; ++worker) {
            const double own_s = (worker == 0 ? 1 : hog_s(t, 30, 60, 1, 2)) *
                                 std::exp(noise * static_cast<double>(random.next_normal()));
            const IterationRecord record = times.record(worker, own_s);
            scores.came(record);
            under_test->add(record);
        }
        scores.predicted(under_test->predict());
    }
    return {scores.scores()};
}

TEST(Predictors, LastIsLateOnAHog) {
    // 30 slow of 90: one miss, one false alarm in a period, so F1 is 29/30. Thirty ahead all 30
    // before the first slow one are missed, and the last one is a false alarm.
    const HogScores last = on_a_hog("last", 0);
    EXPECT_NEAR(last.f1(0), 29.0 / 30, 0.003);
    EXPECT_NEAR(last.f1(2), 2 * 29.0 / (2 * 29 + 1 + 30), 0.02);
}

TEST(Predictors, EpisodesForeseesAHog) {
    for (const double noise : {0.0, 0.02}) {
        const HogScores seen = on_a_hog("episodes", noise);
        EXPECT_GT(seen.f1(0), 0.96) << noise;
        EXPECT_GT(seen.f1(1), 0.9) << noise;
        EXPECT_GT(seen.f1(2), 0.9) << noise;
        const HogScores last = on_a_hog("last", noise);
        EXPECT_LT(seen.error(1), 0.6 * last.error(1)) << noise;
        EXPECT_LT(seen.error(2), 0.4 * last.error(2)) << noise;
    }
}

TEST(Predictors, EpisodesCriesNoWolf) {
    // Slow phases that begin at random: nothing is predicted to begin.
    const auto episodes = predictor("episodes", 2);
    OwnTimes times(2);
    PredictorScores scores("episodes", 2, OwnTimes::kBatch);
    Rng random(11, RngPurpose::kPattern, 1);
    int slow = 0;
    for (int t = 0; t < 6000; ++t) {
        slow = slow > 0 ? slow - 1 : random.next_uniform() < 0.004F ? 18 : 0;
        for (int worker = 0; worker < 2; ++worker) {
            const IterationRecord record = times.record(worker, worker == 1 && slow > 0 ? 2 : 1);
            scores.came(record);
            episodes->add(record);
        }
        scores.predicted(episodes->predict());
    }
    const PredictorScore thirty = scores.scores().at(2);
    EXPECT_GT(thirty.hits, 100);
    EXPECT_GT(thirty.precision, 0.85);
    EXPECT_GT(scores.scores().at(0).f1, 0.9);
}

TEST(Predictors, EpisodesKnowsWhenASlowPhaseEnds) {
    const auto episodes = predictor("episodes", 1);
    OwnTimes times(1);
    for (int t = 0; t < 3 * 90 + 60 + 20; ++t) {  // twenty iterations into a slow phase of thirty
        episodes->add(times.record(0, hog_s(t, 30, 60, 1, 2)));
    }
    const std::vector<float> row = episodes->predict().own_s.at(0);
    EXPECT_EQ(row.at(8), 2);
    EXPECT_EQ(row.at(11), 1);
    EXPECT_EQ(row.at(29), 1);
}

TEST(Predictors, EpisodesTakesASingleLateIterationForWhatItIs) {
    const auto episodes = predictor("episodes", 1);
    OwnTimes times(1);
    for (int t = 0; t < 100; ++t) {
        episodes->add(times.record(0, t == 70 ? 5 : 1));
    }
    EXPECT_EQ(episodes->predict().own_s.at(0), std::vector<float>(kMaxHorizon, 1));
}

TEST(Predictors, AutoIsAsGoodAsTheBest) {
    const HogScores chosen = on_a_hog("auto", 0);
    const HogScores best = on_a_hog("episodes", 0);
    EXPECT_LT(chosen.error(2), 1.5 * best.error(2));
    // Pure noise: the mean is better than the last value.
    const auto noisy = [](const std::string& name) {
        const auto one = predictor(name, 1);
        PredictorScores scores(name, 1, OwnTimes::kBatch);
        OwnTimes times(1);
        Rng random(5, RngPurpose::kPattern, 1);
        for (int t = 0; t < 1000; ++t) {
            const IterationRecord record =
                times.record(0, std::exp(0.05 * static_cast<double>(random.next_normal())));
            scores.came(record);
            one->add(record);
            scores.predicted(one->predict());
        }
        return scores.scores().front().relative_error;
    };
    EXPECT_LT(noisy("auto"), 0.9 * noisy("last"));
    EXPECT_LT(noisy("auto"), 1.05 * noisy("ewma"));
}

TEST(Predictors, RecordsWithoutTimesAreNone) {
    for (const char* name : {"last", "ewma", "episodes", "auto"}) {
        const auto one = predictor(name, 1);
        one->add({.worker = 0, .samples = 0, .compute_s = 1});
        one->add({.worker = 0, .samples = 64, .compute_s = 0});
        EXPECT_TRUE(one->predict().own_s.at(0).empty()) << name;
    }
}

}  // namespace
}  // namespace cohort
