// The networks of STAR's evaluation, described a second time: the zoo's have the same layers, and
// their kernels agree with loops in double precision. Learning.
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "cohort/model/zoo.hpp"
#include "support/layers/reference_check.hpp"

namespace cohort::test {
namespace {

struct ZooTwin {
    const char* model;
    Shape input;
    Value (*describe)(TwinBuilder&);  ///< ends in what the last linear layer reads
};

std::ostream& operator<<(std::ostream& out, const ZooTwin& twin) {
    return out << twin.model << " on " << to_string(twin.input);
}

Value conv_relu(TwinBuilder& net, Value x, const ConvOptions& options) {
    return net.relu(net.conv(x, options));
}

Value conv_norm_relu(TwinBuilder& net, Value x, const ConvOptions& options) {
    return net.relu(net.batch_norm(net.conv(x, options)));
}

Value max_pool(TwinBuilder& net, Value x, const PoolOptions& options = {}) {
    return net.pool(x, PoolKind::kMax, options);
}

Value pooled(TwinBuilder& net, Value x) {
    net.scope("head");
    return net.flatten(net.pool(x, PoolKind::kGlobalAverage));
}

/// 20x17 -> 5x5 -> 2x2 -> 1x1; the last pooling finds a single pixel.
Value describe_alexnet(TwinBuilder& net) {
    Value x = conv_relu(net, net.input(), {64, 11, 4, 5});
    x = conv_relu(net, max_pool(net, x), {192, 5, 1, 2});
    x = conv_relu(net, max_pool(net, x), {384, 3, 1, 1});
    x = conv_relu(net, x, {256, 3, 1, 1});
    return net.flatten(conv_relu(net, x, {256, 3, 1, 1}));
}

/// 16x19 -> 8x9 -> 4x4 -> 2x2 -> 1x1 -> 1x1
Value describe_vgg13(TwinBuilder& net) {
    Value x = net.input();
    for (const std::int64_t channels : {64, 128, 256, 512, 512}) {
        x = conv_norm_relu(net, x, {channels, 3, 1, 1});
        x = conv_norm_relu(net, x, {channels, 3, 1, 1});
        x = net.shape(x)[1] > 1 ? max_pool(net, x) : x;
    }
    return net.flatten(x);
}

Value describe_densenet121(TwinBuilder& net) {
    constexpr std::array<int, 4> kLayers{6, 12, 24, 16};
    const auto norm_conv = [&](Value x, std::int64_t channels, std::int64_t kernel) {
        return net.conv(net.relu(net.batch_norm(x)), {.channels = channels,
                                                      .kernel = kernel,
                                                      .padding = kernel == 3 ? 1 : 0,
                                                      .bias = false});
    };
    net.scope("stem");
    Value x = net.conv(net.input(), {.channels = 64, .kernel = 3, .padding = 1, .bias = false});
    std::int64_t channels = 64;
    for (std::size_t stage = 0; stage < 4; ++stage) {
        for (int layer = 0; layer < kLayers[stage]; ++layer) {
            net.scope("stage" + std::to_string(stage + 1) + ".block" + std::to_string(layer));
            x = net.concat({x, norm_conv(norm_conv(x, 128, 1), 32, 3)});
            channels += 32;
        }
        if (stage < 3) {
            net.scope("transition" + std::to_string(stage + 1));
            channels /= 2;
            x = net.pool(norm_conv(x, channels, 1), PoolKind::kAverage, {2, 2});
        }
    }
    net.scope("head");
    return pooled(net, net.relu(net.batch_norm(x)));
}

/// Rows of the table in Szegedy et al. 2015: #1x1, #3x3 reduce, #3x3, #5x5 reduce, #5x5, pool proj.
constexpr std::array<std::array<std::int64_t, 6>, 9> kInceptions{{{64, 96, 128, 16, 32, 32},
                                                                  {128, 128, 192, 32, 96, 64},
                                                                  {192, 96, 208, 16, 48, 64},
                                                                  {160, 112, 224, 24, 64, 64},
                                                                  {128, 128, 256, 24, 64, 64},
                                                                  {112, 144, 288, 32, 64, 64},
                                                                  {256, 160, 320, 32, 128, 128},
                                                                  {256, 160, 320, 32, 128, 128},
                                                                  {384, 192, 384, 48, 128, 128}}};
constexpr std::array<const char*, 9> kInceptionScopes{
    "stage3.block0", "stage3.block1", "stage4.block0", "stage4.block1", "stage4.block2",
    "stage4.block3", "stage4.block4", "stage5.block0", "stage5.block1"};

Value describe_googlenet(TwinBuilder& net) {
    net.scope("stem");
    Value x = conv_norm_relu(net, net.input(), {192, 3, 1, 1});
    for (std::size_t i = 0; i < kInceptions.size(); ++i) {
        const auto& [one, reduce3, three, reduce5, five, pool] = kInceptions[i];
        if (i == 2 || i == 7) {
            net.scope(i == 2 ? "stage3" : "stage4");
            x = max_pool(net, x, {3, 2, 1});
        }
        net.scope(kInceptionScopes[i]);
        const Value a = conv_norm_relu(net, x, {one, 1});
        const Value b = conv_norm_relu(net, conv_norm_relu(net, x, {reduce3, 1}), {three, 3, 1, 1});
        Value c = conv_norm_relu(net, conv_norm_relu(net, x, {reduce5, 1}), {five, 3, 1, 1});
        c = conv_norm_relu(net, c, {five, 3, 1, 1});
        const Value d = conv_norm_relu(net, max_pool(net, x, {3, 1, 1}), {pool, 1});
        x = net.concat({a, b, c, d});
    }
    return pooled(net, x);
}

/// t, c, n, s of Sandler et al. 2018, table 2; the second row keeps small images as they are.
constexpr std::array<std::array<std::int64_t, 4>, 7> kMobile{{{1, 16, 1, 1},
                                                              {6, 24, 2, 1},
                                                              {6, 32, 3, 2},
                                                              {6, 64, 4, 2},
                                                              {6, 96, 3, 1},
                                                              {6, 160, 3, 2},
                                                              {6, 320, 1, 1}}};

Value describe_mobilenetv2(TwinBuilder& net) {
    const auto pointwise = [&](Value x, std::int64_t channels) {
        return net.batch_norm(net.conv(x, {.channels = channels, .kernel = 1, .bias = false}));
    };
    net.scope("stem");
    Value x = conv_norm_relu(net, net.input(),
                             {.channels = 32, .kernel = 3, .padding = 1, .bias = false});
    for (std::size_t row = 0; row < kMobile.size(); ++row) {
        const auto& [expansion, channels, blocks, first_stride] = kMobile[row];
        for (std::int64_t block = 0; block < blocks; ++block) {
            net.scope("stage" + std::to_string(row + 1) + ".block" + std::to_string(block));
            const std::int64_t stride = block == 0 ? first_stride : 1;
            const std::int64_t before = net.shape(x)[0];
            const std::int64_t wide = expansion * before;
            Value y = net.relu(pointwise(x, wide));
            y = conv_norm_relu(net, y,
                               {.channels = wide,
                                .kernel = 3,
                                .stride = stride,
                                .padding = 1,
                                .groups = wide,
                                .bias = false});
            if (stride == 2) {
                x = pointwise(y, channels);
                continue;
            }
            const Value around = before == channels ? x : pointwise(x, channels);
            x = net.add(pointwise(y, channels), around);
        }
    }
    net.scope("head");
    return pooled(net, net.relu(pointwise(x, 1280)));
}

std::vector<ZooTwin> zoo_twins() {
    return {{"alexnet", Shape{3, 20, 17}, describe_alexnet},
            {"vgg13", Shape{1, 16, 19}, describe_vgg13},
            {"densenet121", Shape{3, 8, 17}, describe_densenet121},
            {"googlenet", Shape{1, 8, 9}, describe_googlenet},
            {"mobilenetv2", Shape{3, 19, 16}, describe_mobilenetv2}};
}

class ZooReference : public ::testing::TestWithParam<ZooTwin> {};

TEST_P(ZooReference, IsTheNetworkOfThePaperAndAgreesInDouble) {
    const auto& [model, input, describe] = GetParam();
    TwinBuilder net(input);
    const Twin twin = net.finish(net.linear(describe(net), {.features = 5}));
    const Graph graph = make_model(model, input, 5);
    ASSERT_EQ(cohort::describe(graph), cohort::describe(twin.graph));
    EXPECT_EQ(graph.training_flops_per_sample(), twin.graph.training_flops_per_sample());
    // Other sums flip ReLUs of values near zero, and deep networks pass that on. Winograd's are off
    // by what 18 bits are (2e-6 of the largest value).
    expect_matches(
        {graph, twin.reference}, {3},
        {.threads = 2,
         .tolerance = 2e-3,
         .in_norm = true,
         .roundings = {rounded_to_bits<18>, rounded_beside<18, 5>, rounded_beside<18, 11>}});
}

TEST_P(ZooReference, LearnsABatchByHeart) {
    const Graph graph = make_model(GetParam().model, Shape{3, 16, 16}, 4);
    OwnedReplica owned(graph, 2, true);
    Replica& replica = owned.replica;
    replica.initialise(1);
    const OwnedBatch batch = random_batch(graph, 16, 1);
    std::vector<float> velocity(replica.parameters().size());
    BatchResult learned = replica.train_step(batch.view(), 1);
    for (int step = 0; step < 150 && learned.loss_sum > 16 * 0.1; ++step) {
        const std::span<float> parameters = replica.parameters();
        const std::span<const float> gradients = replica.gradients();
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            velocity[i] = 0.9F * velocity[i] + gradients[i];
            parameters[i] -= 0.02F * velocity[i];
        }
        replica.fold_batch_statistics(kBatchNormMomentum, 1);
        learned = replica.train_step(batch.view(), 1);
    }
    EXPECT_LE(learned.loss_sum / 16, 0.1);
    EXPECT_EQ(learned.correct, 16);
}

INSTANTIATE_TEST_SUITE_P(Models, ZooReference, ::testing::ValuesIn(zoo_twins()),
                         [](const auto& made) { return std::string(made.param.model); });

}  // namespace
}  // namespace cohort::test
