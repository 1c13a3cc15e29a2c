// What a builder joins into one layer, and what it refuses.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "cohort/core/error.hpp"
#include "support/core/message_of.hpp"
#include "support/layers/reference_check.hpp"
#include "support/layers/reference_structures.hpp"

namespace cohort::test {
namespace {

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

TEST(Fusion, LeavesAReluWithABound) {
    GraphBuilder net("bounded", Shape{3, 4, 4});
    const Value x = net.relu6(net.batch_norm(net.relu6(net.conv(net.input(), {.channels = 2}))));
    EXPECT_EQ(
        kinds(net.finish(net.linear(net.flatten(x), {.features = 2}))),
        (std::vector<std::string>{"conv", "relu6", "batch_norm", "relu6", "flatten", "linear"}));
}

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
