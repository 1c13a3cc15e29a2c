// Every layer but convolution against the double-precision reference, over odd channels, maps,
// batches and thread counts; the layer's input gradient is seen by a layer in front of it.
#include <gtest/gtest.h>

#include <cmath>

#include <functional>

#include "support/layers/reference_check.hpp"

namespace cohort::test {
namespace {

struct LayerCase {
    const char* name;
    std::function<Value(TwinBuilder&, Value)> describe;
};

std::ostream& operator<<(std::ostream& out, const LayerCase& c) {
    return out << c.name;
}

struct MapCase {
    std::int64_t channels;
    std::int64_t height;
    std::int64_t width;
};

std::ostream& operator<<(std::ostream& out, const MapCase& m) {
    return out << m.channels << "x" << m.height << "x" << m.width;
}

LayerCase pool_case(const char* name, PoolKind kind, const PoolOptions& options) {
    return {name,
            [kind, options](TwinBuilder& net, Value x) { return net.pool(x, kind, options); }};
}

LayerCase activation_case(const char* name, ActivationKind kind) {
    return {name, [kind](TwinBuilder& net, Value x) { return net.activation(x, kind); }};
}

using MapParam = std::tuple<LayerCase, MapCase>;

class MapLayer : public ::testing::TestWithParam<MapParam> {};

TEST_P(MapLayer, MatchesReference) {
    const auto& [layer, map] = GetParam();
    SCOPED_TRACE(::testing::Message() << map);
    TwinBuilder blocked(Shape{2, map.height, map.width});
    const Value x = blocked.conv(blocked.input(), {.channels = map.channels, .kernel = 1});
    const Twin twin = blocked.finish_linear(layer.describe(blocked, x));
    expect_matches(twin, {5, 2}, {.threads = 1});
    expect_matches(twin, {13, 2, 7}, {.threads = 3});
    // The plain order of the network's input, with no gradient asked for.
    TwinBuilder plain(Shape{map.channels, map.height, map.width});
    expect_matches(plain.finish_linear(layer.describe(plain, plain.input())), {3, 4},
                   {.threads = 2});
}

INSTANTIATE_TEST_SUITE_P(
    Layers, MapLayer,
    ::testing::Combine(
        ::testing::Values(
            LayerCase{"batch_norm", [](TwinBuilder& net, Value x) { return net.batch_norm(x); }},
            LayerCase{"batch_norm_relu",
                      [](TwinBuilder& net, Value x) { return net.relu(net.batch_norm(x)); }},
            LayerCase{"batch_norm_large_epsilon",
                      [](TwinBuilder& net, Value x) { return net.batch_norm(x, {0.1F}); }},
            activation_case("relu", ActivationKind::kRelu),
            activation_case("gelu", ActivationKind::kGelu),
            activation_case("sigmoid", ActivationKind::kSigmoid),
            activation_case("tanh", ActivationKind::kTanh),
            pool_case("max_pool", PoolKind::kMax, {}),
            pool_case("max_pool_overlapping", PoolKind::kMax, {3, 2, 1}),
            pool_case("average_pool", PoolKind::kAverage, {}),
            pool_case("average_pool_overlapping", PoolKind::kAverage, {3, 2, 1}),
            pool_case("average_pool_sparse", PoolKind::kAverage, {2, 3, 1}),
            pool_case("global_average_pool", PoolKind::kGlobalAverage, {}),
            LayerCase{"dropout", [](TwinBuilder& net, Value x) { return net.dropout(x, 0.3F); }}),
        ::testing::Values(MapCase{1, 5, 3}, MapCase{3, 4, 7}, MapCase{8, 3, 3}, MapCase{16, 5, 2},
                          MapCase{17, 3, 5}, MapCase{33, 2, 3})),
    [](const auto& made) {
        const MapCase& m = std::get<1>(made.param);
        return std::string(std::get<0>(made.param).name) + "_" + std::to_string(m.channels) + "x" +
               std::to_string(m.height) + "x" + std::to_string(m.width);
    });

using FeatureParam = std::tuple<LayerCase, std::int64_t>;

class FeatureLayer : public ::testing::TestWithParam<FeatureParam> {};

TEST_P(FeatureLayer, MatchesReference) {
    const auto& [layer, features] = GetParam();
    TwinBuilder net(Shape{features});
    const Value x = net.linear(net.input(), {.features = features});
    const Twin twin = net.finish_linear(layer.describe(net, x));
    expect_matches(twin, {5, 2}, {.threads = 1});
    expect_matches(twin, {13, 2, 7}, {.threads = 3});
}

INSTANTIATE_TEST_SUITE_P(
    Layers, FeatureLayer,
    ::testing::Combine(
        ::testing::Values(
            LayerCase{"linear",
                      [](TwinBuilder& net, Value x) { return net.linear(x, {.features = 9}); }},
            LayerCase{"linear_without_bias",
                      [](TwinBuilder& net, Value x) {
                          return net.linear(x, {.features = 17, .bias = false});
                      }},
            LayerCase{"linear_relu",
                      [](TwinBuilder& net, Value x) {
                          return net.relu(net.linear(x, {.features = 33}));
                      }},
            LayerCase{
                "linear_relu_without_bias",
                [](TwinBuilder& net,
                   Value x) { return net.relu(net.linear(x, {.features = 4, .bias = false})); }},
            activation_case("gelu", ActivationKind::kGelu),
            activation_case("sigmoid", ActivationKind::kSigmoid),
            LayerCase{"dropout", [](TwinBuilder& net, Value x) { return net.dropout(x, 0.6F); }}),
        ::testing::Values(1, 3, 8, 16, 17, 100)),
    [](const auto& made) {
        return std::string(std::get<0>(made.param).name) + "_" +
               std::to_string(std::get<1>(made.param));
    });

class BatchNormOfFeatures : public ::testing::TestWithParam<std::int64_t> {};

// One value per sample and feature: among few samples a deviation can be tiny, which magnifies
// rounding, so the batches are larger here and the limit is wider.
TEST_P(BatchNormOfFeatures, MatchesReference) {
    TwinBuilder net(Shape{GetParam()});
    const Value x = net.linear(net.input(), {.features = GetParam()});
    const Twin twin = net.finish_linear(net.relu(net.batch_norm(x)));
    expect_matches(twin, {23}, {.threads = 1, .tolerance = 1e-4});
    expect_matches(twin, {13, 29, 16}, {.threads = 3, .tolerance = 1e-4});
}

INSTANTIATE_TEST_SUITE_P(Features, BatchNormOfFeatures, ::testing::Values(1, 3, 8, 16, 17, 100));

TEST(BatchNorm, SurvivesAMeanFarFromTheRunningMean) {
    // Statistics are taken relative to the running mean; a thousand deviations away they still
    // have to hold, because that is where a first batch may be.
    TwinBuilder net(Shape{3, 6, 5});
    Twin twin = net.finish_linear(net.batch_norm(net.input()));
    OwnedReplica owned(twin.graph, 2);
    randomise(owned.replica, 3);
    OwnedBatch batch = random_batch(twin.graph, 12, 3);
    for (float& value : batch.samples) {
        value = 100.0F + value;
    }
    const ReferenceResult wanted = run_reference(twin, owned.replica, batch, 0, true);
    owned.replica.train_step(batch.view());
    for (const FlatRange& range : twin.graph.state().ranges()) {
        for (std::int64_t i = range.offset; i < range.offset + range.size; ++i) {
            const auto at = static_cast<std::size_t>(i);
            EXPECT_NEAR(owned.replica.batch_state()[at], wanted.batch_state[at],
                        2e-3 * std::abs(wanted.batch_state[at]))
                << range.name;
        }
    }
}

TEST(Loss, TakesLargeLogits) {
    TwinBuilder net(Shape{2});
    const Twin twin = net.finish(net.linear(net.input(), {.features = 3, .bias = false}));
    OwnedReplica owned(twin.graph, 1);
    std::fill(owned.replica.parameters().begin(), owned.replica.parameters().end(), 0.0F);
    owned.replica.parameters()[0] = 1e4F;  // logits (1e4, 0, 0): exp overflows without care
    const std::vector<float> samples{1.0F, 0.0F};
    const std::int64_t id = 0;
    for (const std::int32_t label : {0, 2}) {
        const BatchResult got = owned.replica.train_step({samples.data(), &label, &id, 1});
        EXPECT_DOUBLE_EQ(got.loss_sum, label == 0 ? 0.0 : 1e4);
        EXPECT_EQ(got.correct, label == 0 ? 1 : 0);
    }
}

TEST(Loss, FirstOfEqualLogitsIsTheAnswer) {
    TwinBuilder net(Shape{2});
    const Twin twin = net.finish(net.linear(net.input(), {.features = 4}));
    OwnedReplica owned(twin.graph, 1);  // zero parameters: four equal logits
    const std::vector<float> samples{1.0F, 0.0F, 0.5F, 2.0F};
    const std::vector<std::int32_t> labels{0, 3};
    const BatchResult got = owned.replica.evaluate({samples.data(), labels.data(), nullptr, 2});
    EXPECT_EQ(got.correct, 1);
    EXPECT_NEAR(got.loss_sum, 2 * std::log(4.0), 1e-12);
}

}  // namespace
}  // namespace cohort::test
