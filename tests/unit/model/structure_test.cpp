// Networks whose difficulty is their shape: values with several consumers, residual blocks, joins
// of different memory orders, views, dropout. The reference is built from the unfused description,
// so fusion is under test as well.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "cohort/core/error.hpp"
#include "support/core/message_of.hpp"
#include "support/layers/reference_check.hpp"
#include "support/layers/reference_structures.hpp"

namespace cohort::test {
namespace {

class Structure : public ::testing::TestWithParam<StructureCase> {};

TEST_P(Structure, MatchesReference) {
    for (const int threads : {1, 2, 3}) {
        const Twin twin = GetParam().make();
        expect_matches(twin, {6, 13, 5},
                       {.threads = threads, .tolerance = kWinogradTolerance, .seed = 4});
    }
}

INSTANTIATE_TEST_SUITE_P(Residuals, Structure, ::testing::ValuesIn(residual_structures()),
                         [](const auto& made) { return std::string(made.param.name); });

INSTANTIATE_TEST_SUITE_P(Joints, Structure, ::testing::ValuesIn(joint_structures()),
                         [](const auto& made) { return std::string(made.param.name); });

INSTANTIATE_TEST_SUITE_P(Views, Structure, ::testing::ValuesIn(view_structures()),
                         [](const auto& made) { return std::string(made.param.name); });

std::vector<std::string> kinds(const Graph& graph) {
    std::vector<std::string> found;
    for (const Graph::Node& node : graph.nodes()) {
        found.emplace_back(node.layer->kind());
    }
    return found;
}

TEST(Fusion, JoinsNormSumAndRelu) {
    EXPECT_EQ(kinds(structure("identity_block_swapped").make().graph),
              (std::vector<std::string>{"conv", "batch_norm+relu", "conv", "batch_norm+add+relu",
                                        "flatten", "linear"}));
}

TEST(Fusion, LeavesAReluWhoseInputIsReadElsewhere) {
    EXPECT_EQ(kinds(structure("relu_of_shared_value").make().graph),
              (std::vector<std::string>{"conv", "relu", "concat", "flatten", "linear"}));
}

TEST(Fusion, DoesNotAddToANormThatHasItsReluAlready) {
    EXPECT_EQ(kinds(structure("relu_before_sum").make().graph),
              (std::vector<std::string>{"conv", "batch_norm+relu", "add", "flatten", "linear"}));
}

/// The loss of sample `id` in a batch of these ids; dropout is on. Batches are one sample repeated,
/// so the loss of a batch is the sum over its masks.
double loss_of(Replica& replica, const std::vector<float>& sample,
               const std::vector<std::int64_t>& ids, std::uint64_t seed, std::uint32_t epoch) {
    OwnedBatch batch;
    for (const std::int64_t id : ids) {
        batch.samples.insert(batch.samples.end(), sample.begin(), sample.end());
        batch.labels.push_back(1);
        batch.ids.push_back(id);
    }
    batch.epoch = epoch;
    return replica.train_step(batch.view(), seed).loss_sum;
}

class DropoutMask : public ::testing::TestWithParam<int> {};

TEST_P(DropoutMask, BelongsToTheSampleNotToTheBatch) {
    const Twin twin = structure("dropout_everywhere").make();
    OwnedReplica owned(twin.graph, GetParam(), true);
    randomise(owned.replica, 6);
    const std::vector<float> sample = random_batch(twin.graph, 1, 6).samples;
    const auto loss = [&](const std::vector<std::int64_t>& ids) {
        return loss_of(owned.replica, sample, ids, 11, 2);
    };
    const double a = loss({3});
    const double b = loss({1LL << 40});
    const double c = loss({12345678901});
    EXPECT_NE(a, b);
    EXPECT_NE(b, c);
    EXPECT_NEAR(loss({3, 1LL << 40, 12345678901}), a + b + c, 1e-4);
    EXPECT_NEAR(loss({12345678901, 3, 3, 3, 1LL << 40}), 3 * a + b + c, 1e-4);
    EXPECT_NE(loss_of(owned.replica, sample, {3}, 12, 2), a) << "another seed, another mask";
    EXPECT_NE(loss_of(owned.replica, sample, {3}, 11, 3), a) << "another epoch, another mask";
}

INSTANTIATE_TEST_SUITE_P(Threads, DropoutMask, ::testing::Values(1, 3));

TEST(Builder, NamesTheLayerInShapeErrors) {
    const auto message = [](const std::function<void(GraphBuilder&)>& describe) {
        GraphBuilder net("net", Shape{3, 8, 8});
        return test::message_of<ShapeError>([&] { describe(net); });
    };
    const auto expect_names = [&](const std::string& layer,
                                  const std::function<void(GraphBuilder&)>& describe) {
        EXPECT_NE(message(describe).find(layer), std::string::npos) << message(describe);
    };
    expect_names("net.linear1", [](GraphBuilder& net) { net.linear(net.input(), {10}); });
    expect_names("net.conv1",
                 [](GraphBuilder& net) { net.conv(net.input(), {.channels = 4, .kernel = 9}); });
    expect_names("net.conv2", [](GraphBuilder& net) {
        net.conv(net.conv(net.input(), {.channels = 4}), {.channels = 4, .groups = 3});
    });
    expect_names("net.stage.add1", [](GraphBuilder& net) {
        net.scope("stage");
        net.add(net.input(), net.conv(net.input(), {.channels = 4}));
    });
    expect_names("net.concat1", [](GraphBuilder& net) {
        net.concat({net.input(), net.conv(net.input(), {.channels = 4})});
    });
    expect_names("net.max_pool1",
                 [](GraphBuilder& net) { net.max_pool(net.input(), {.kernel = 20, .stride = 1}); });
    expect_names("conv", [](GraphBuilder& net) { net.conv(net.input(), {.channels = 0}); });
    expect_names("dropout", [](GraphBuilder& net) { net.dropout(net.input(), 1.0F); });
    expect_names("net", [](GraphBuilder& net) {
        static_cast<void>(net.finish(net.conv(net.input(), {.channels = 4})));
    });
}

TEST(Builder, RefusesALayerThatLeadsNowhere) {
    // Its gradient would never be written, and its parameters would train on what was in memory.
    GraphBuilder net("net", Shape{4});
    const Value x = net.linear(net.input(), {.features = 6});
    net.relu(net.linear(x, {.features = 7}));
    const Value logits = net.linear(x, {.features = 3});
    EXPECT_THAT([&] { static_cast<void>(net.finish(logits)); },
                testing::ThrowsMessage<UsageError>(testing::HasSubstr("relu1")));
}

TEST(Builder, RefusesANetworkWithoutParameters) {
    GraphBuilder net("net", Shape{4});
    EXPECT_THROW(static_cast<void>(net.finish(net.relu(net.input()))), UsageError);
}

}  // namespace
}  // namespace cohort::test
