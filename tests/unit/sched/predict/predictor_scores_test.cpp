// Scores worked out by hand: two workers, iterations in turn, one of them slow when told.
#include <gtest/gtest.h>

#include "cohort/sched/predictor.hpp"
#include "support/sched/own_times.hpp"

namespace cohort {
namespace {

using test::OwnTimes;

constexpr int kWorkers = 2;

/// A forecast that says the same for every iteration to come.
Forecast flat(float first, float second) {
    Forecast forecast;
    forecast.own_s = {std::vector<float>(kMaxHorizon, first),
                      std::vector<float>(kMaxHorizon, second)};
    return forecast;
}

class Scored {
public:
    /// One iteration of both workers, then a forecast.
    void iterate(double first_s, double second_s, const Forecast& forecast) {
        scores.came(times_.record(0, first_s));
        scores.came(times_.record(1, second_s));
        scores.predicted(forecast);
    }
    PredictorScore at(std::size_t horizon) { return scores.scores().at(horizon); }

    PredictorScores scores{"test", kWorkers, OwnTimes::kBatch};

private:
    OwnTimes times_{kWorkers};
};

TEST(PredictorScores, CountsErrorsOfTheRightIteration) {
    Scored run;
    run.iterate(1, 1, flat(1.5F, 1));  // the next ones come as 1 and 1: off by a half, and by 0
    run.iterate(1, 1, flat(1, 2));     // 1 and 4: off by 0, and by a half
    run.iterate(1, 4, flat(1, 1));
    const PredictorScore score = run.at(0);
    EXPECT_EQ(score.predictor, "test");
    EXPECT_EQ(score.horizon, 1);
    EXPECT_EQ(score.predictions, 4);
    EXPECT_DOUBLE_EQ(score.relative_error, (0.5 + 0 + 0 + 0.5) / 4);
    EXPECT_EQ(run.at(1).predictions, 0) << "ten iterations have not come yet";
}

TEST(PredictorScores, CountsStragglersWithinTheHorizon) {
    // Worker 1 is slow in iterations 15 to 19 of 60. What is said after iteration t: never slow.
    Scored run;
    for (int t = 0; t < 60; ++t) {
        run.iterate(1, t >= 15 && t < 20 ? 2 : 1, flat(1, 1));
    }
    EXPECT_EQ(run.at(0).misses, 5);
    EXPECT_EQ(run.at(1).misses, 5 + 9) << "the nine before the first as well";
    EXPECT_EQ(run.at(2).misses, 19) << "all before the last";
    EXPECT_EQ(run.at(0).hits + run.at(0).false_alarms, 0);
    EXPECT_EQ(run.at(0).precision, 0);
    EXPECT_EQ(run.at(0).f1, 0);
}

TEST(PredictorScores, LastValueOnAnEpisode) {
    // The same with the last value as forecast: it misses the first slow one and calls one too
    // many. Precision, recall and F1 are 4/5.
    Scored run;
    for (int t = 0; t < 60; ++t) {
        const double slow_s = t >= 15 && t < 20 ? 2 : 1;
        run.iterate(1, slow_s, flat(1, static_cast<float>(slow_s)));
    }
    const PredictorScore one = run.at(0);
    EXPECT_EQ(one.hits, 4);
    EXPECT_EQ(one.false_alarms, 1);
    EXPECT_EQ(one.misses, 1);
    EXPECT_DOUBLE_EQ(one.precision, 0.8);
    EXPECT_DOUBLE_EQ(one.recall, 0.8);
    EXPECT_DOUBLE_EQ(one.f1, 0.8);
}

TEST(PredictorScores, ARatioOfExactlyTheLimitIsNoStraggler) {
    Scored run;
    run.iterate(1, 1.2, flat(1, 1.1999F));
    run.iterate(1, 1.2, flat(1, 1.1999F));
    EXPECT_EQ(run.at(0).hits + run.at(0).false_alarms + run.at(0).misses, 0);
}

TEST(PredictorScores, BatchesOfOtherSizesAreComparedPerBatch) {
    PredictorScores scores("test", kWorkers, 64);
    const auto half = [](int worker) {
        return IterationRecord{.worker = worker, .samples = 32, .compute_s = 0.5, .push_s = 0.25};
    };
    for (int t = 0; t < 2; ++t) {
        scores.came(half(0));
        scores.came(half(1));
        scores.predicted(flat(1.25F, 1.25F));
    }
    EXPECT_EQ(scores.scores().front().predictions, 2);
    EXPECT_NEAR(scores.scores().front().relative_error, 0, 1e-7);
}

TEST(PredictorScores, AForecastCountsOnceForAWorkerThatDidNotPush) {
    PredictorScores scores("test", kWorkers, OwnTimes::kBatch);
    OwnTimes times(kWorkers);
    scores.came(times.record(0, 1));
    scores.came(times.record(1, 1));
    for (int t = 0; t < 3; ++t) {
        scores.predicted(flat(1, 1));
        scores.came(times.record(0, 1));
    }
    scores.came(times.record(1, 1));
    EXPECT_EQ(scores.scores().front().predictions, 3 + 1);
}

TEST(PredictorScores, ALostWorkersPredictionsCountNowhere) {
    Scored run;
    run.iterate(1, 1, flat(1, 1));
    run.scores.forget(1);
    run.iterate(1, 9, flat(1, 1));
    EXPECT_EQ(run.at(0).predictions, 1);
    EXPECT_EQ(run.at(0).misses, 0);
}

TEST(PredictorScores, Merge) {
    PredictorScore a{.predictions = 1, .relative_error = 0.4, .hits = 1, .false_alarms = 1};
    a.merge({.predictions = 3, .relative_error = 0, .hits = 2, .misses = 1});
    EXPECT_EQ(a.predictions, 4);
    EXPECT_DOUBLE_EQ(a.relative_error, 0.1);
    EXPECT_DOUBLE_EQ(a.precision, 0.75);
    EXPECT_DOUBLE_EQ(a.recall, 0.75);
    EXPECT_DOUBLE_EQ(a.f1, 0.75);
}

}  // namespace
}  // namespace cohort
