#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "cohort/sched/predictor.hpp"
#include "sched/predict/lstm_model.hpp"
#include "support/sched/own_times.hpp"

namespace cohort {
namespace {

using test::OwnTimes;

constexpr int kF = LstmModel::kFeatures;
constexpr int kH = LstmModel::kHidden;

LstmModel random_model(std::uint64_t seed, float scale) {
    LstmModel model;
    Rng random(seed, RngPurpose::kPattern, 1);
    model.parameters.resize(static_cast<std::size_t>(LstmModel::parameter_count()));
    for (float& each : model.parameters) {
        each = scale * random.next_normal();
    }
    return model;
}

/// The same in double, as the published equations say, from the flat parameters.
class Reference {
public:
    explicit Reference(const LstmModel& model) : parameters_(model.parameters) {}

    std::vector<double> step(std::vector<double> x) {
        at_ = 0;
        for (std::size_t layer = 0; layer < hidden_.size(); ++layer) {
            std::vector<double>& h = hidden_[layer];
            std::vector<double> gates = product(x, 4 * kH);
            const std::vector<double> from_hidden = product(h, 4 * kH);
            const std::vector<double> bias = take(4 * kH);
            for (std::size_t k = 0; k < gates.size(); ++k) {
                gates[k] += from_hidden[k] + bias[k];
            }
            const auto sigmoid = [&](std::size_t k) { return 1 / (1 + std::exp(-gates[k])); };
            for (std::size_t k = 0; k < h.size(); ++k) {
                double& c = cell_[layer][k];
                c = sigmoid(h.size() + k) * c + sigmoid(k) * std::tanh(gates[2 * h.size() + k]);
                h[k] = sigmoid(3 * h.size() + k) * std::tanh(c);
            }
            x = h;
        }
        std::vector<double> outputs = dense(x, kF);
        std::vector<double> time = outputs;
        for (std::size_t i = 1; i < LstmModel::kTimeNetwork.size(); ++i) {
            time = dense(time, LstmModel::kTimeNetwork.at(i));
            for (double& each : time) {
                each = i + 1 < LstmModel::kTimeNetwork.size() ? std::max(each, 0.0) : each;
            }
        }
        outputs.push_back(time.front());
        EXPECT_EQ(at_, parameters_.size());
        return outputs;
    }

private:
    std::vector<double> take(std::size_t count) {
        std::vector<double> out;
        for (std::size_t i = 0; i < count; ++i) {
            out.push_back(static_cast<double>(parameters_.at(at_++)));
        }
        return out;
    }
    std::vector<double> product(const std::vector<double>& x, int out) {
        std::vector<double> y;
        for (int o = 0; o < out; ++o) {
            const std::vector<double> row = take(x.size());
            y.push_back(0);
            for (std::size_t i = 0; i < x.size(); ++i) {
                y.back() += row[i] * x[i];
            }
        }
        return y;
    }
    std::vector<double> dense(const std::vector<double>& x, int out) {
        std::vector<double> y = product(x, out);
        const std::vector<double> bias = take(y.size());
        for (std::size_t i = 0; i < y.size(); ++i) {
            y[i] += bias[i];
        }
        return y;
    }

    std::vector<float> parameters_;
    std::size_t at_ = 0;
    std::vector<std::vector<double>> hidden_{std::vector<double>(kH), std::vector<double>(kH)};
    std::vector<std::vector<double>> cell_ = hidden_;
};

TEST(Lstm, EqualsTheEquationsInDouble) {
    const LstmModel model = random_model(3, 0.15F);
    const LstmNetwork network(model);
    Reference reference(model);
    LstmState state;
    Rng random(4, RngPurpose::kPattern, 1);
    for (int t = 0; t < 60; ++t) {
        LstmFeatures x{};
        for (float& each : x) {
            each = 2 * random.next_normal();
        }
        const LstmNetwork::Outputs got = network.step(x, state);
        const std::vector<double> expected = reference.step({x.begin(), x.end()});
        for (std::size_t i = 0; i < got.size(); ++i) {
            EXPECT_NEAR(static_cast<double>(got.at(i)), expected.at(i), 1e-5) << t << " " << i;
        }
    }
}

TEST(Lstm, SaturatedGatesStayFinite) {
    const LstmNetwork network(random_model(3, 40));
    LstmState state;
    for (int t = 0; t < 10; ++t) {
        for (const float each : network.step({1e4F, -1e4F, 1e4F, -1e4F}, state)) {
            EXPECT_TRUE(std::isfinite(each));
        }
    }
}

TEST(Lstm, AModelOfAnotherSizeIsRefused) {
    LstmModel model = random_model(3, 1);
    model.parameters.pop_back();
    EXPECT_THROW(LstmNetwork{model}, UsageError);
}

TEST(LstmScale, FeaturesAreRelativeToWhatIsUsual) {
    LstmScale scale;
    const ResourceUse full{.cpu_share = 1, .rx_bytes_s = 1e9, .tx_bytes_s = 5e8};
    LstmFeatures features{};
    for (int i = 0; i < 50; ++i) {
        features = scale.add(full, 0.25);
    }
    EXPECT_EQ(features, (LstmFeatures{1, 0, 0, 0}));
    const ResourceUse scarce{.cpu_share = 0.5, .rx_bytes_s = 1e8, .tx_bytes_s = 5e8};
    features = scale.add(scarce, 0.5);
    EXPECT_FLOAT_EQ(features[0], 0.5F);
    EXPECT_FLOAT_EQ(features[1], std::log(0.1F));
    EXPECT_FLOAT_EQ(features[2], 0);
    EXPECT_FLOAT_EQ(features[LstmModel::kTime], std::log(2.0F));
    EXPECT_NEAR(scale.own_s(std::log(2.0F)), 0.5, 1e-6);
}

TEST(LstmScale, SlownessBecomesUsualOnlyWhenItIsMostOfTheTime) {
    LstmScale scale;
    for (int i = 0; i < 256; ++i) {
        (void)scale.add({}, i < 64 ? 1 : 2);
    }
    EXPECT_NEAR(scale.own_s(0), 1, 1e-6);
    for (int i = 0; i < 30; ++i) {
        (void)scale.add({}, 2);
    }
    EXPECT_NEAR(scale.own_s(0), 2, 1e-6);
}

TEST(LstmScale, RatesThatAreNotKnownAreFull) {
    LstmScale scale;
    const LstmFeatures features = scale.add({}, 1);
    EXPECT_EQ(features[1], 0);
    EXPECT_EQ(features[2], 0);
}

TEST(LstmPredictor, ScalesWithTheJob) {
    // The same history in milliseconds and in minutes: the same forecast, as much longer.
    const auto model = std::make_shared<const LstmModel>(random_model(5, 0.2F));
    const auto small = make_predictor("lstm", 1, OwnTimes::kBatch, model);
    const auto large = make_predictor("lstm", 1, OwnTimes::kBatch, model);
    OwnTimes times(1);
    for (int t = 0; t < 300; ++t) {
        const double own_s = test::hog_s(t, 30, 60, 1, 2);
        small->add(times.record(0, own_s / 1024));
        large->add(times.record(0, own_s * 128));
        const Forecast a = small->predict();
        const Forecast b = large->predict();
        for (std::size_t i = 0; i < kMaxHorizon; ++i) {
            EXPECT_FLOAT_EQ(a.own_s[0].at(i) * 1024 * 128, b.own_s[0].at(i));
        }
    }
}

TEST(LstmPredictor, ForecastsAreTimesThatTheWorkerHasHad) {
    // What a network says lies between them; a step in between is nobody's.
    const auto model = std::make_shared<const LstmModel>(random_model(5, 0.2F));
    const auto one = make_predictor("lstm", 1, OwnTimes::kBatch, model);
    OwnTimes times(1);
    for (int t = 0; t < 200; ++t) {
        one->add(times.record(0, test::hog_s(t, 30, 60, 1, 2)));
        if (t < 60) {
            continue;
        }
        const Forecast forecast = one->predict();
        for (const float each : forecast.own_s[0]) {
            EXPECT_TRUE(std::abs(each - 1) < 1e-5F || std::abs(each - 2) < 1e-5F) << each;
        }
    }
}

TEST(LstmPredictor, GoesOnWithARenewedModel) {
    // Once its memories have begun anew, it says what it would have said with that model all along.
    const auto old_model = std::make_shared<const LstmModel>(random_model(5, 0.2F));
    const auto new_model = std::make_shared<const LstmModel>(random_model(6, 0.2F));
    const auto renewed = make_predictor("lstm", 1, OwnTimes::kBatch, old_model);
    const auto always = make_predictor("lstm", 1, OwnTimes::kBatch, new_model);
    OwnTimes times(1);
    for (int t = 0; t < 100 + 2 * LstmModel::kWindow; ++t) {
        if (t == 100) {
            renewed->renew(std::make_shared<const LstmNetwork>(*new_model));
        }
        const IterationRecord record = times.record(0, test::hog_s(t, 30, 60, 1, 2) + 0.001 * t);
        renewed->add(record);
        always->add(record);
    }
    EXPECT_EQ(renewed->predict().own_s[0], always->predict().own_s[0]);
}

TEST(LstmPredictor, AsksAgainGiveTheSame) {
    const auto model = std::make_shared<const LstmModel>(random_model(5, 0.2F));
    const auto one = make_predictor("lstm", 2, OwnTimes::kBatch, model);
    OwnTimes times(2);
    one->add(times.record(1, 1));
    const Forecast first = one->predict();
    EXPECT_TRUE(first.own_s[0].empty());
    EXPECT_EQ(first.own_s[1], one->predict().own_s[1]);
    one->forget(1);
    EXPECT_TRUE(one->predict().own_s[1].empty());
}

TEST(LstmModel, ParameterCount) {
    const std::int64_t cells = 4 * 64 * (4 + 64 + 1) + 4 * 64 * (64 + 64 + 1);
    EXPECT_EQ(LstmModel::parameter_count(),
              cells + (64 * 4 + 4) + (4 * 256 + 256) + (256 * 128 + 128) + (128 + 1));
}

}  // namespace
}  // namespace cohort
