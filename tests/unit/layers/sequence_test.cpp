// Sequences [T,F] against the double-precision reference: LSTM, linear layers and activations at
// every position, joins, the last position, and networks that end in a mean squared error.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "cohort/core/error.hpp"
#include "support/layers/reference_check.hpp"

namespace cohort::test {
namespace {

struct SequenceCase {
    std::int64_t positions;
    std::int64_t features;
    std::int64_t hidden;
};

class LstmLayer : public ::testing::TestWithParam<SequenceCase> {};

TEST_P(LstmLayer, MatchesReference) {
    const auto [positions, features, hidden] = GetParam();
    // A layer in front shows the gradient of the input, one behind uses every position.
    TwinBuilder net(Shape{positions, features});
    Value x = net.lstm(net.linear(net.input(), {.features = features}), {.hidden = hidden});
    const Twin every = net.finish_regression(net.linear(x, {.features = 3}));
    expect_matches(every, {5, 1}, {.threads = 1});
    expect_matches(every, {13, 1, 7, 13}, {.threads = 3});

    TwinBuilder last(Shape{positions, features});
    x = last.lstm(last.lstm(last.input(), {.hidden = hidden}), {.hidden = 5});
    const Twin classes = last.finish(last.linear(last.last_position(x), {.features = 4}));
    expect_matches(classes, {6, 1, 11}, {.threads = 2});
}

INSTANTIATE_TEST_SUITE_P(Shapes, LstmLayer,
                         ::testing::Values(SequenceCase{1, 1, 1}, SequenceCase{1, 4, 7},
                                           SequenceCase{2, 3, 5}, SequenceCase{7, 1, 3},
                                           SequenceCase{9, 5, 16}, SequenceCase{30, 3, 33},
                                           SequenceCase{17, 33, 64}),
                         [](const auto& made) {
                             return std::to_string(made.param.positions) + "x" +
                                    std::to_string(made.param.features) + "x" +
                                    std::to_string(made.param.hidden);
                         });

struct LayerCase {
    const char* name;
    std::function<Value(TwinBuilder&, Value)> describe;
};

class PositionLayer : public ::testing::TestWithParam<LayerCase> {};

TEST_P(PositionLayer, MatchesReference) {
    TwinBuilder net(Shape{6, 5});
    const Value x = GetParam().describe(net, net.linear(net.input(), {.features = 9}));
    const Twin twin = net.finish_regression(net.linear(x, {.features = 2}));
    expect_matches(twin, {4, 1}, {.threads = 1});
    expect_matches(twin, {11, 3, 8}, {.threads = 3});
}

INSTANTIATE_TEST_SUITE_P(
    Layers, PositionLayer,
    ::testing::Values(
        LayerCase{"linear", [](TwinBuilder& net,
                               Value x) { return net.linear(x, {.features = 17, .bias = false}); }},
        LayerCase{"linear_relu", [](TwinBuilder& net,
                                    Value x) { return net.relu(net.linear(x, {.features = 4})); }},
        LayerCase{"relu", [](TwinBuilder& net, Value x) { return net.relu(x); }},
        LayerCase{"tanh", [](TwinBuilder& net,
                             Value x) { return net.activation(x, ActivationKind::kTanh); }},
        LayerCase{"sigmoid", [](TwinBuilder& net,
                                Value x) { return net.activation(x, ActivationKind::kSigmoid); }},
        LayerCase{"dropout", [](TwinBuilder& net, Value x) { return net.dropout(x, 0.3F); }},
        LayerCase{"add",
                  [](TwinBuilder& net, Value x) {
                      return net.relu(net.add(x, net.linear(x, {.features = 9})));
                  }},
        LayerCase{"concat",
                  [](TwinBuilder& net, Value x) {
                      return net.concat({x, net.linear(x, {.features = 1}), x});
                  }},
        LayerCase{"two_readers",
                  [](TwinBuilder& net, Value x) {
                      return net.concat({net.lstm(x, {.hidden = 4}), net.lstm(x, {.hidden = 3})});
                  }}),
    [](const auto& made) { return made.param.name; });

TEST(Sequence, FlattensAndJoinsAsFeatures) {
    TwinBuilder net(Shape{4, 3});
    const Value x = net.lstm(net.input(), {.hidden = 5});
    const Value whole = net.linear(net.flatten(x), {.features = 6});
    const Twin twin = net.finish_linear(net.concat({whole, net.last_position(x)}));
    expect_matches(twin, {5, 2}, {.threads = 2});
}

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

TEST(Lstm, HoldsWhereGatesSaturate) {
    TwinBuilder net(Shape{5, 2});
    const Twin twin = net.finish_regression(net.lstm(net.input(), {.hidden = 4}));
    OwnedReplica owned(twin.graph, 1);
    randomise(owned.replica, 2);
    for (float& value : owned.replica.parameters()) {
        value *= 60.0F;
    }
    expect_step_matches(twin, owned.replica, random_batch(twin.graph, 6, 2));
}

TEST(Lstm, LetsNaNThrough) {
    GraphBuilder net("nan", Shape{3, 2});
    OwnedReplica owned(net.finish_regression(net.lstm(net.input(), {.hidden = 20})), 1);
    owned.replica.initialise(1);
    std::vector<float> sample(6, 0.5F);
    sample[0] = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> outputs(60);
    owned.replica.infer({.samples = sample.data(), .size = 1}, outputs);
    for (const float value : outputs) {
        EXPECT_TRUE(std::isnan(value));
    }
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
    GraphBuilder logits("logits", Shape{4, 3});
    EXPECT_THROW((void)logits.finish(logits.lstm(logits.input(), {.hidden = 2})), ShapeError);
}

}  // namespace
}  // namespace cohort::test
