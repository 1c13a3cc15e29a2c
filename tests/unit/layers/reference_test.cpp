// The reference itself: central differences in double for every layer, so that it can be trusted
// when the engine is compared with it. Perturbations that flip a ReLU or a maximum are skipped.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "support/layers/reference_check.hpp"

namespace cohort::test {
namespace {

struct GradientCase {
    const char* name;
    Shape input;
    std::function<Value(TwinBuilder&, Value)> describe;
};

/// Differentiates the mean loss by every parameter and compares.
void check_by_differences(const Twin& twin) {
    OwnedReplica owned(twin.graph, 1);
    Replica& replica = owned.replica;
    randomise(replica, 5);
    const OwnedBatch source = random_batch(twin.graph, 3, 5);
    ReferenceBatch batch;
    batch.samples = ReferenceTensor(3, twin.graph.input_shape());
    if (twin.graph.reads_tokens()) {
        batch.samples.values.assign(source.tokens.begin(), source.tokens.end());
    } else {
        batch.samples.values.assign(source.samples.begin(), source.samples.end());
    }
    batch.labels = source.labels;
    batch.targets.assign(source.targets.begin(), source.targets.end());
    batch.ids = source.ids;
    batch.notes_kinks = true;
    std::vector<double> parameters(replica.parameters().begin(), replica.parameters().end());
    const std::vector<double> state(replica.state().begin(), replica.state().end());
    const auto run = [&] { return twin.reference.run(twin.graph, parameters, state, batch, true); };
    const ReferenceResult base = run();
    const double scale = largest(base.gradients);
    int checked = 0;
    int skipped = 0;
    for (const FlatRange& range : twin.graph.parameters().ranges()) {
        for (std::int64_t i = 0; i < range.size; ++i) {
            constexpr double kStep = 1e-5;
            const auto at = static_cast<std::size_t>(range.offset + i);
            const double value = parameters[at];
            parameters[at] = value + kStep;
            const ReferenceResult above = run();
            parameters[at] = value - kStep;
            const ReferenceResult below = run();
            parameters[at] = value;
            if (!same_sides(above, base) || !same_sides(below, base)) {
                ++skipped;
                continue;
            }
            ++checked;
            const double slope = (above.loss_sum - below.loss_sum) / 3.0 / (2 * kStep);
            EXPECT_NEAR(base.gradients[at], slope, 1e-7 * std::max(1.0, scale))
                << range.name << "[" << i << "]";
        }
    }
    EXPECT_GT(checked, 10 * skipped);
    for (std::size_t i = 0; i < source.samples.size(); ++i) {
        constexpr double kStep = 1e-5;
        double& value = batch.samples.values[i];
        const double kept = value;
        value = kept + kStep;
        const ReferenceResult above = run();
        value = kept - kStep;
        const ReferenceResult below = run();
        value = kept;
        if (same_sides(above, base) && same_sides(below, base)) {
            const double slope = (above.loss_sum - below.loss_sum) / 3.0 / (2 * kStep);
            EXPECT_NEAR(base.input_gradient[i], slope, 1e-7 * std::max(1.0, scale))
                << "input[" << i << "]";
        }
    }
}

class ReferenceGradient : public ::testing::TestWithParam<GradientCase> {};

TEST_P(ReferenceGradient, EqualsCentralDifferences) {
    TwinBuilder net(GetParam().input);
    // A parameterised layer in front makes the gradient of the layer's input visible.
    const Value x = GetParam().input.rank() == 3
                        ? net.conv(net.input(), {.channels = 4, .kernel = 1})
                        : net.linear(net.input(), {.features = 6});
    check_by_differences(net.finish_linear(GetParam().describe(net, x), 3));
}

const Shape kImage{2, 5, 4};

INSTANTIATE_TEST_SUITE_P(
    Layers, ReferenceGradient,
    ::testing::Values(
        GradientCase{"conv", kImage,
                     [](TwinBuilder& net, Value x) {
                         return net.conv(x, {.channels = 6, .stride = 2, .padding = 1});
                     }},
        GradientCase{"grouped_dilated_conv", kImage,
                     [](TwinBuilder& net, Value x) {
                         return net.conv(x,
                                         {.channels = 6, .padding = 2, .dilation = 2, .groups = 2});
                     }},
        GradientCase{"rectangular_conv", kImage,
                     [](TwinBuilder& net, Value x) {
                         return net.conv(x, {.channels = 3,
                                             .kernel = {1, 4},
                                             .stride = {2, 1},
                                             .padding = {0, 1, 1, 2}});
                     }},
        GradientCase{"rectangular_grouped_conv", kImage,
                     [](TwinBuilder& net, Value x) {
                         return net.conv(x, {.channels = 6,
                                             .kernel = {3, 2},
                                             .stride = {1, 2},
                                             .padding = {2, 0, 0, 1},
                                             .dilation = {2, 1},
                                             .groups = 2});
                     }},
        GradientCase{"linear", Shape{5},
                     [](TwinBuilder& net, Value x) { return net.linear(x, {.features = 7}); }},
        GradientCase{"batch_norm", kImage,
                     [](TwinBuilder& net, Value x) { return net.batch_norm(x); }},
        GradientCase{"batch_norm_of_features", Shape{5},
                     [](TwinBuilder& net, Value x) { return net.batch_norm(x); }},
        GradientCase{"relu", kImage, [](TwinBuilder& net, Value x) { return net.relu(x); }},
        GradientCase{"relu6", kImage, relu6_of_large},
        GradientCase{
            "gelu", kImage,
            [](TwinBuilder& net, Value x) { return net.activation(x, ActivationKind::kGelu); }},
        GradientCase{
            "sigmoid", kImage,
            [](TwinBuilder& net, Value x) { return net.activation(x, ActivationKind::kSigmoid); }},
        GradientCase{
            "tanh", kImage,
            [](TwinBuilder& net, Value x) { return net.activation(x, ActivationKind::kTanh); }},
        GradientCase{"max_pool", kImage,
                     [](TwinBuilder& net, Value x) {
                         return net.pool(x, PoolKind::kMax, {3, 2, 1});
                     }},
        GradientCase{"average_pool", kImage,
                     [](TwinBuilder& net, Value x) {
                         return net.pool(x, PoolKind::kAverage, {3, 2, 1});
                     }},
        GradientCase{"rectangular_max_pool", kImage,
                     [](TwinBuilder& net, Value x) {
                         return net.pool(x, PoolKind::kMax,
                                         {.kernel = {3, 2},
                                          .stride = {2, 1},
                                          .padding = {0, 1, 1, 0},
                                          .dilation = {2, 1}});
                     }},
        GradientCase{"average_pool_of_padding", kImage,
                     [](TwinBuilder& net, Value x) {
                         return net.pool(x, PoolKind::kAverage,
                                         {.kernel = {2, 3},
                                          .stride = {1, 2},
                                          .padding = {1, 0, 0, 2},
                                          .count_padding = true});
                     }},
        GradientCase{
            "global_average_pool", kImage,
            [](TwinBuilder& net, Value x) { return net.pool(x, PoolKind::kGlobalAverage); }},
        GradientCase{"add_and_concat", kImage,
                     [](TwinBuilder& net, Value x) {
                         const Value y = net.activation(x, ActivationKind::kTanh);
                         return net.concat({x, net.add(x, y), y});
                     }},
        GradientCase{"dropout", kImage,
                     [](TwinBuilder& net, Value x) { return net.dropout(x, 0.4F); }}),
    [](const auto& made) { return made.param.name; });

class ReferenceSequenceGradient : public ::testing::TestWithParam<GradientCase> {};

TEST_P(ReferenceSequenceGradient, EqualsCentralDifferences) {
    TwinBuilder net(GetParam().input);
    check_by_differences(net.finish_regression(GetParam().describe(net, net.input())));
}

const Shape kSequence{4, 3};

INSTANTIATE_TEST_SUITE_P(
    Layers, ReferenceSequenceGradient,
    ::testing::Values(
        GradientCase{"lstm", kSequence,
                     [](TwinBuilder& net, Value x) { return net.lstm(x, {.hidden = 5}); }},
        GradientCase{"lstm_of_one_position", Shape{1, 2},
                     [](TwinBuilder& net, Value x) { return net.lstm(x, {.hidden = 3}); }},
        GradientCase{"two_lstms", kSequence,
                     [](TwinBuilder& net, Value x) {
                         return net.lstm(net.lstm(x, {.hidden = 4}), {.hidden = 2});
                     }},
        GradientCase{"linear_relu", kSequence,
                     [](TwinBuilder& net, Value x) {
                         return net.linear(net.relu(net.linear(x, {.features = 6})),
                                           {.features = 2});
                     }},
        GradientCase{"concat", kSequence,
                     [](TwinBuilder& net, Value x) {
                         const Value y = net.lstm(x, {.hidden = 2});
                         return net.concat({net.linear(y, {.features = 3}), y});
                     }},
        GradientCase{"waves", kSequence,
                     [](TwinBuilder& net, Value x) {
                         return net.position(net.lstm(x, {.hidden = 4}),
                                             {.learned = false, .scale = 1.5F});
                     }},
        GradientCase{"layer_norm", kSequence,
                     [](TwinBuilder& net, Value x) {
                         return net.layer_norm(net.position(net.linear(x, {.features = 5})));
                     }},
        GradientCase{"attention", kSequence,
                     [](TwinBuilder& net, Value x) {
                         return net.attention(net.linear(x, {.features = 12}),
                                              {.heads = 2, .causal = false});
                     }},
        GradientCase{"causal_attention", kSequence,
                     [](TwinBuilder& net, Value x) {
                         return net.attention(net.linear(x, {.features = 9}), {.heads = 3});
                     }},
        GradientCase{"last_position", kSequence,
                     [](TwinBuilder& net, Value x) {
                         return net.last_position(net.lstm(x, {.hidden = 4}));
                     }}),
    [](const auto& made) { return made.param.name; });

TEST(ReferenceTokenGradient, EqualsCentralDifferences) {
    TwinBuilder net(TokenInput{4, 6});
    const Value x = net.embedding(net.input(), {.features = 3});
    const Value y = net.layer_norm(net.lstm(x, {.hidden = 3}));
    check_by_differences(net.finish(net.linear_tied(y, x, "embedding1")));
}

}  // namespace
}  // namespace cohort::test
