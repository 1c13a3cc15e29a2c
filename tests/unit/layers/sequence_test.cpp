// Sequences [T,F]: an LSTM's step by hand, its first parameters and its bits, mean squared errors,
// and what is refused; gpu/layers_test.cpp compares layers of sequences with the reference.
#include <gtest/gtest.h>

#include <cmath>

#include "cohort/core/error.hpp"
#include "support/layers/reference_check.hpp"

namespace cohort::test {
namespace {

TEST(Lstm, KnowsOnePositionByHand) {
    // One unit, one feature: c = s(i) tanh(g), h = s(o) tanh(c).
    GraphBuilder net("hand", Shape{1, 1});
    OwnedReplica owned(net.finish_regression(net.lstm(net.input(), {.hidden = 1})), 1);
    const FlatLayout& layout = owned.replica.graph().parameters();
    const std::vector<float> weights{1.0F, -2.0F, 0.5F, 3.0F};
    const std::vector<float> bias{0.1F, 0.2F, 0.3F, 0.4F};
    for (std::size_t gate = 0; gate < 4; ++gate) {
        const auto at = [&](const char* name) {
            return static_cast<std::size_t>(layout.find(name)->offset) + gate;
        };
        owned.replica.parameters()[at("lstm1.weight_input")] = weights[gate];
        owned.replica.parameters()[at("lstm1.bias")] = bias[gate];
    }
    const float sample = 0.7F;
    float output = 0;
    owned.replica.infer({.samples = &sample, .size = 1}, {&output, 1});
    // s(0.8) = 0.6899745, tanh(0.65) = 0.5716700, s(2.5) = 0.9241418
    EXPECT_NEAR(output, 0.9241418 * std::tanh(0.6899745 * 0.5716700), 1e-6);
}

TEST(Lstm, StartsWithOpenForgetGates) {
    GraphBuilder net("start", Shape{2, 9});
    OwnedReplica owned(net.finish_regression(net.lstm(net.input(), {.hidden = 4})), 1);
    owned.replica.initialise(3);
    const FlatLayout& layout = owned.replica.graph().parameters();
    const auto values = [&](const char* name) {
        const FlatRange* range = layout.find(name);
        return owned.replica.parameters().subspan(static_cast<std::size_t>(range->offset),
                                                  static_cast<std::size_t>(range->size));
    };
    for (std::size_t i = 0; i < 16; ++i) {
        EXPECT_EQ(values("lstm1.bias")[i], i / 4 == 1 ? 1.0F : 0.0F);
    }
    float largest = 0;
    for (const float value : values("lstm1.weight_input")) {
        largest = std::max(largest, std::abs(value));
    }
    EXPECT_LE(largest, 1.0F / 3);  // 1/sqrt(9 features)
    EXPECT_GT(largest, 0.3F);
}

TEST(Lstm, GivesTheSameBitsTwice) {
    TwinBuilder net(Shape{12, 3});
    const Twin twin = net.finish_regression(net.lstm(net.input(), {.hidden = 19}));
    const OwnedBatch batch = random_batch(twin.graph, 23, 4);
    std::vector<float> first;
    for (int run = 0; run < 2; ++run) {
        OwnedReplica owned(twin.graph, 2, true);
        owned.replica.initialise(8);
        owned.replica.train_step(batch.view());
        owned.replica.evaluate(batch.view());
        owned.replica.train_step(batch.view());
        const std::vector<float> got(owned.replica.gradients().begin(),
                                     owned.replica.gradients().end());
        if (run > 0) {
            EXPECT_EQ(got, first);
        }
        first = got;
    }
}

TEST(SquaredError, IsTheMeanOverOutputs) {
    GraphBuilder net("mse", Shape{1});
    OwnedReplica owned(net.finish_regression(net.linear(net.input(), {.features = 2})), 1);
    owned.replica.parameters()[0] = 1.0F;  // outputs (x, 0); the bias is another range
    const std::vector<float> samples{1.0F, 2.0F};
    const std::vector<float> targets{0.0F, 0.0F, 2.0F, 3.0F};
    const BatchView batch{.samples = samples.data(), .size = 2, .targets = targets.data()};
    const BatchResult evaluated = owned.replica.evaluate(batch);
    EXPECT_DOUBLE_EQ(evaluated.loss_sum, 1.0 / 2 + 9.0 / 2);
    EXPECT_EQ(evaluated.correct, 0);
    EXPECT_EQ(evaluated.samples, 2);
    owned.replica.train_step(batch);
    // d/dw of (1/2) sum over samples of (1/2) sum of squares: (x w1 - 0) x / 2 for the first sample
    EXPECT_FLOAT_EQ(owned.replica.gradients()[0], 0.5F);
    EXPECT_FLOAT_EQ(owned.replica.gradients()[1], -3.0F);
}

TEST(SquaredError, WantsTargets) {
    GraphBuilder net("mse", Shape{2});
    OwnedReplica owned(net.finish_regression(net.linear(net.input(), {.features = 1})), 1);
    const std::vector<float> samples{1.0F, 2.0F};
    const std::int32_t label = 0;
    EXPECT_THROW(owned.replica.train_step({.samples = samples.data(), .labels = &label, .size = 1}),
                 UsageError);
    EXPECT_THROW(owned.replica.evaluate({.samples = samples.data(), .labels = &label, .size = 1}),
                 UsageError);
}

TEST(Sequence, RefusesWhatDoesNotFit) {
    GraphBuilder net("refused", Shape{4, 3});
    EXPECT_THROW(net.lstm(net.input(), {.hidden = 0}), ShapeError);
    EXPECT_THROW(net.batch_norm(net.input()), ShapeError);
    EXPECT_THROW(net.conv(net.input(), {.channels = 2}), ShapeError);
    const Value x = net.lstm(net.input(), {.hidden = 2});
    EXPECT_THROW(net.lstm(net.flatten(x), {.hidden = 2}), ShapeError);
    EXPECT_THROW(net.last_position(net.flatten(x)), ShapeError);
    EXPECT_THROW(net.concat({x, net.last_position(x)}), ShapeError);
    GraphBuilder logits("logits", Shape{4, 3, 2});
    EXPECT_THROW((void)logits.finish(logits.conv(logits.input(), {.channels = 2})), ShapeError);
}

}  // namespace
}  // namespace cohort::test
