// Training of the predictor: its network is LstmModel's, it learns what the last value cannot
// know, and the numbers do not depend on chance.
#include <gtest/gtest.h>

#include "cohort/core/error.hpp"
#include "cohort/tensor/device.hpp"
#include "support/sched/hog_series.hpp"
#include "support/train/predictor_error.hpp"
#include "train/fit/predictor_trainer.hpp"

namespace cohort::test {
namespace {

/// Of "the next own time is the last one", z-scored as the model does it.
double error_of_last(const LstmModel& model, std::span<const PredictorSeries> series) {
    double sum = 0;
    double count = 0;
    for (const PredictorWindow& window : cut_windows(series, LstmModel::kWindow, 0)) {
        for (int t = 0; t < LstmModel::kWindow; ++t) {
            const double off = static_cast<double>(window.first[t + 1].at(LstmModel::kTime) -
                                                   window.first[t].at(LstmModel::kTime)) /
                               static_cast<double>(model.time_deviation);
            sum += off * off;
            count += 1;
        }
    }
    return sum / count;
}

TEST(PredictorGraph, IsTheNetworkOfTheModel) {
    const Graph graph = predictor_graph();
    EXPECT_EQ(graph.parameters().elements(), LstmModel::parameter_count());
    EXPECT_EQ(graph.shape(graph.logits()), (Shape{LstmModel::kWindow, LstmModel::kOutputs}));
    std::vector<std::string> names;
    for (const FlatRange& range : graph.parameters().ranges()) {
        names.push_back(range.name + " " + to_string(range.shape));
    }
    const std::vector<std::string> wanted{"lstm1.weight_input [256,4]",
                                          "lstm1.weight_hidden [256,64]",
                                          "lstm1.bias [256]",
                                          "lstm2.weight_input [256,64]",
                                          "lstm2.weight_hidden [256,64]",
                                          "lstm2.bias [256]",
                                          "linear1.weight [4,64]",
                                          "linear1.bias [4]",
                                          "linear2.weight [256,4]",
                                          "linear2.bias [256]",
                                          "linear3.weight [128,256]",
                                          "linear3.bias [128]",
                                          "linear4.weight [1,128]",
                                          "linear4.bias [1]"};
    EXPECT_EQ(names, wanted);
}

TEST(PredictorTraining, LearnsAHogThatComesAndGoes) {
    const std::vector<PredictorSeries> series = hog_series_of({}, 12, 420, 1);
    std::vector<PredictorProgress> progress;
    const LstmModel model =
        train_predictor(series, {.epochs = 30, .patience = 30, .batch = 16, .lr = 3e-3},
                        [&](const PredictorProgress& now) { progress.push_back(now); });
    ASSERT_EQ(progress.size(), 30U);
    EXPECT_LT(progress.back().training_error, 0.5 * progress.front().training_error);
    const std::vector<PredictorSeries> unseen = hog_series_of({}, 4, 420, 2);
    const double error = test::predictor_error(model, unseen).time;
    const double last = error_of_last(model, unseen);
    RecordProperty("error", std::to_string(error));
    RecordProperty("error_of_last", std::to_string(last));
    EXPECT_LT(error, 0.5 * last);
}

TEST(PredictorTraining, KeepsTheBestOnHeldOutSeries) {
    const std::vector<PredictorSeries> series = hog_series_of({}, 6, 200, 3);
    PredictorError best;
    const LstmModel model = train_predictor(
        series, {.epochs = 4, .lr = 1e-2, .held_out = 0.34},
        [&](const PredictorProgress& now) { best = now.best ? now.held_out : best; });
    // Among the series are the two that were held out.
    bool found = false;
    for (std::size_t a = 0; a < series.size(); ++a) {
        for (std::size_t b = a + 1; b < series.size(); ++b) {
            const std::vector<PredictorSeries> pair{series[a], series[b]};
            found |= std::abs(test::predictor_error(model, pair).all - best.all) < 1e-6;
        }
    }
    EXPECT_TRUE(found);
}

TEST(PredictorTraining, StopsWithoutProgress) {
    const std::vector<PredictorSeries> series = hog_series_of({}, 4, 160, 3);
    std::int64_t epochs = 0;
    std::int64_t last_best = 0;
    (void)train_predictor(series, {.epochs = 60, .patience = 2, .lr = 0.3},
                          [&](const PredictorProgress& now) {
                              epochs = now.epoch;
                              last_best = now.best ? now.epoch : last_best;
                          });
    EXPECT_LT(epochs, 60);
    EXPECT_EQ(epochs, last_best + 2);
}

TEST(PredictorTraining, GivesTheSameModelTwice) {
    const std::vector<PredictorSeries> series = hog_series_of({}, 3, 180, 4);
    const PredictorTrainingOptions options{.epochs = 2, .seed = 7};
    const LstmModel first = train_predictor(series, options);
    EXPECT_EQ(train_predictor(series, options).parameters, first.parameters);
    EXPECT_NE(train_predictor(series, {.epochs = 2, .seed = 8}).parameters, first.parameters);
}

TEST(PredictorTraining, ScalesFeaturesOverTheTrainingSet) {
    PredictorSeries series;
    for (int i = 0; i < 200; ++i) {
        const auto k = static_cast<float>(i % 2);
        series.features.push_back({k, 2.0F, -k, 3 * k});
    }
    const std::vector<PredictorSeries> all{series};
    const LstmModel model = train_predictor(all, {.epochs = 1});
    EXPECT_FLOAT_EQ(model.feature_mean[0], 0.5F);
    EXPECT_FLOAT_EQ(model.feature_deviation[0], 0.5F);
    EXPECT_FLOAT_EQ(model.feature_mean[1], 2.0F);
    EXPECT_FLOAT_EQ(model.feature_deviation[1], 0.01F);  // never moves
    EXPECT_FLOAT_EQ(model.time_mean, 1.5F);
    EXPECT_FLOAT_EQ(model.time_deviation, 1.5F);
}

TEST(PredictorTrainer, LoadsWhatItGave) {
    const std::vector<PredictorSeries> series = hog_series_of({}, 2, 150, 5);
    PredictorTrainer first(1);
    first.begin(series, 3);
    const LstmModel model = first.model();
    PredictorTrainer second(1);
    second.load(model);
    EXPECT_EQ(second.model().parameters, model.parameters);
    EXPECT_EQ(second.model().feature_mean, model.feature_mean);
    const auto windows = cut_windows(series, 128, 0);
    EXPECT_EQ(first.error(windows).all, second.error(windows).all);
    EXPECT_EQ(first.step(windows, 1e-3), second.step(windows, 1e-3));
    EXPECT_EQ(first.model().parameters, second.model().parameters);
}

TEST(PredictorTrainer, ComputesWhatThePredictorDoes) {
    // The same parameters in the engine's inference and in the predictor's, position by position.
    const std::vector<PredictorSeries> series = hog_series_of({}, 3, 150, 6);
    PredictorTrainer trainer(1);
    trainer.begin(series, 11);
    for (int step = 0; step < 20; ++step) {
        (void)trainer.step(cut_windows(series, 16, 0), 1e-2);
    }
    const LstmModel model = trainer.model();
    const LstmNetwork network(model);

    const std::unique_ptr<Device> device = make_cpu_device(1);
    Replica replica(predictor_graph(), *device);
    auto from = model.parameters.begin();
    for (const FlatRange& range : replica.graph().parameters().ranges()) {
        std::copy_n(from, range.size, replica.parameters().begin() + range.offset);
        from += range.size;
    }
    for (const PredictorWindow& window : cut_windows(series, LstmModel::kWindow, 0)) {
        std::vector<float> samples;
        for (int t = 0; t < LstmModel::kWindow; ++t) {
            const LstmFeatures scaled = network.scaled(window.first[t]);
            samples.insert(samples.end(), scaled.begin(), scaled.end());
        }
        std::vector<float> outputs(static_cast<std::size_t>(LstmModel::kWindow) *
                                   LstmModel::kOutputs);
        replica.infer({.samples = samples.data(), .size = 1}, outputs);
        LstmState state;
        for (std::size_t t = 0; t < LstmModel::kWindow; ++t) {
            const LstmNetwork::Outputs wanted =
                network.step(network.scaled(window.first[t]), state);
            for (std::size_t k = 0; k < wanted.size(); ++k) {
                EXPECT_NEAR(outputs[t * wanted.size() + k], wanted.at(k), 1e-5) << t << " " << k;
            }
        }
    }
}

TEST(PredictorWindows, LieWhereTheyAreAsked) {
    std::vector<PredictorSeries> series(3);
    series[0].features.resize(128);  // one too few
    series[1].features.resize(129);
    series[2].features.resize(129 + 64);
    const auto starts = [&](std::int64_t stride, std::int64_t shift) {
        std::vector<std::int64_t> found;
        for (const PredictorWindow& window : cut_windows(series, stride, shift)) {
            const bool third = window.first >= series[2].features.data() &&
                               window.first < series[2].features.data() + 193;
            found.push_back(third ? window.first - series[2].features.data()
                                  : 1000 + (window.first - series[1].features.data()));
        }
        return found;
    };
    EXPECT_EQ(starts(32, 0), (std::vector<std::int64_t>{1000, 0, 32, 64}));
    EXPECT_EQ(starts(32, 20), (std::vector<std::int64_t>{1000, 20, 52}));
    EXPECT_EQ(starts(128, 0), (std::vector<std::int64_t>{1000, 0}));
}

TEST(PredictorTraining, RefusesWhatItCannotUse) {
    const std::vector<PredictorSeries> too_short{hog_series({}, 128, 1)};
    EXPECT_THROW((void)train_predictor(too_short, {}), UsageError);
    const std::vector<PredictorSeries> series{hog_series({}, 130, 1)};
    EXPECT_THROW((void)train_predictor(series, {.held_out = 1.0}), UsageError);
    EXPECT_THROW((void)train_predictor(series, {.lr = 0}), UsageError);
    EXPECT_THROW((void)train_predictor(series, {.stride = 0}), UsageError);
}

}  // namespace
}  // namespace cohort::test
