// The desk: what it is told comes together in the view; forecasts only from a predictor.
#include "sched/session/load_monitor.hpp"

#include <gmock/gmock.h>

namespace cohort {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr int kWorkers = 2;
constexpr std::int64_t kBatch = 10;

/// Says that everything stays as it is.
class Last final : public Predictor {
public:
    explicit Last(int* made) : own_s_(kWorkers, 0), made_(made) {}
    [[nodiscard]] std::string_view name() const override { return "last"; }
    void add(const IterationRecord& record) override {
        own_s_[static_cast<std::size_t>(record.worker)] = static_cast<float>(record.own_s(kBatch));
    }
    void forget(int worker) override { own_s_[static_cast<std::size_t>(worker)] = 0; }
    [[nodiscard]] Forecast predict() const override {
        ++*made_;
        Forecast forecast;
        for (const float own_s : own_s_) {
            forecast.own_s.emplace_back(own_s > 0 ? kMaxHorizon : 0, own_s);
        }
        return forecast;
    }

private:
    std::vector<float> own_s_;
    int* made_;
};

IterationRecord record(int worker, double compute_s) {
    return {.worker = worker, .samples = kBatch, .compute_s = compute_s};
}

TEST(LoadMonitor, WithoutAPredictorThereAreRecordsAndNoForecasts) {
    LoadMonitor desk(kWorkers, kBatch, 0, nullptr);
    desk.timed(record(0, 1));
    desk.timed({.worker = 1, .samples = 0});  // took part without samples
    const LoadView& view = desk.view();
    EXPECT_EQ(view.history->size(0), 1U);
    EXPECT_EQ(view.history->size(1), 0U);
    EXPECT_THAT(view.forecast.own_s, IsEmpty());
    EXPECT_THAT(desk.scores(), IsEmpty());
    EXPECT_FALSE(desk.predicts());
}

TEST(LoadMonitor, APredictorThatComesLateLearnsWhatWasRecorded) {
    LoadMonitor desk(kWorkers, kBatch, 0, nullptr);
    desk.timed(record(0, 1));
    desk.timed(record(0, 2));
    int made = 0;
    desk.predict_with(std::make_unique<Last>(&made));
    EXPECT_EQ(desk.view().forecast.mean(0, 1), 2);
    EXPECT_THAT(desk.view().forecast.own_s[1], IsEmpty());
    EXPECT_EQ(made, 1) << "nothing has come since";
    desk.timed(record(1, 3));
    EXPECT_EQ(desk.view().forecast.mean(1, 1), 3);
    EXPECT_EQ(made, 2);
    EXPECT_THAT(desk.scores(), SizeIs(kHorizons.size()));
}

TEST(LoadMonitor, AWorkerThatIsLostIsForgottenEverywhere) {
    int made = 0;
    LoadMonitor desk(kWorkers, kBatch, 0, std::make_unique<Last>(&made));
    for (int i = 0; i < 2 + StragglerNews::kLasting; ++i) {
        desk.timed(record(0, 1));
        desk.timed(record(1, 5));
    }
    ASSERT_THAT(desk.straggler_news().take(), SizeIs(1));
    EXPECT_EQ(desk.view().forecast.mean(1, 1), 5);
    desk.lost(1);
    const auto news = desk.straggler_news().take();
    ASSERT_THAT(news, SizeIs(1));
    EXPECT_EQ(news[0].kind, StragglerNews::Kind::kLeft);
    EXPECT_EQ(desk.view().history->size(1), 0U);
    EXPECT_EQ(desk.view().forecast.mean(1, 1), 0);
    EXPECT_EQ(desk.view().forecast.mean(0, 1), 1);
}

TEST(LoadMonitor, WhatWasNotMeasuredStaysAsItWas) {
    LoadMonitor desk(kWorkers, kBatch, 0, nullptr);
    desk.measured(GradientFacts{.noise_scale = 100});
    desk.measured(GradientFacts{.noise_scale = 0, .loss = 7});
    const LoadView& view = desk.view();
    EXPECT_EQ(view.gradients.noise_scale, 100);
    EXPECT_EQ(view.gradients.loss, 7);
}

TEST(LoadMonitor, TheLossIsSmoothed) {
    LoadMonitor desk(kWorkers, kBatch, 0, nullptr);
    desk.updated(2);
    EXPECT_EQ(desk.view().gradients.loss, 2);
    desk.updated(1);
    EXPECT_NEAR(desk.view().gradients.loss, 1.95, 1e-9);
}

}  // namespace
}  // namespace cohort
