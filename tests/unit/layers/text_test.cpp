// Layers of text: the same bits twice; what they do at their edges; tied weights; cross entropy
// with a label per position. gpu/layers_test.cpp compares them with the double-precision reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "cohort/core/error.hpp"
#include "support/gpu/gpu_cases.hpp"

namespace cohort::test {
namespace {

class TextLayers : public ::testing::TestWithParam<NetworkCase> {};

TEST_P(TextLayers, GiveTheSameBitsTwice) {
    const Twin twin = GetParam().make();
    const OwnedBatch batch = random_batch(twin.graph, 5, 4);
    std::vector<float> first;
    for (int run = 0; run < 2; ++run) {
        OwnedReplica owned(twin.graph, 2, true);
        owned.replica.initialise(8);
        for (int step = 0; step < 2; ++step) {
            owned.replica.train_step(batch.view());
            owned.replica.evaluate(batch.view());
        }
        const std::vector<float> got(owned.replica.gradients().begin(),
                                     owned.replica.gradients().end());
        if (run > 0) {
            EXPECT_EQ(got, first);
        }
        first = got;
    }
}

INSTANTIATE_TEST_SUITE_P(All, TextLayers, ::testing::ValuesIn(text_cases()),
                         [](const auto& made) { return made.param.name; });

Graph token_network(std::int64_t positions, std::int64_t vocabulary) {
    GraphBuilder net("tokens", TokenInput{positions, vocabulary});
    const Value x = net.embedding(net.input(), {.features = 4});
    return net.finish(net.linear(x, {.features = vocabulary}));
}

TEST(Tokens, ContractOfTheGraph) {
    const Graph graph = token_network(5, 9);
    EXPECT_TRUE(graph.reads_tokens());
    EXPECT_EQ(graph.input_shape(), (Shape{5}));
    EXPECT_EQ(graph.vocabulary(), 9);
    EXPECT_EQ(graph.positions(), 5);
    EXPECT_EQ(graph.classes(), 9);
    EXPECT_EQ(graph.outputs(), 45);
    GraphBuilder net("numbers", Shape{3, 2});
    const Graph regression = net.finish_regression(net.linear(net.input(), {.features = 4}));
    EXPECT_FALSE(regression.reads_tokens());
    EXPECT_EQ(regression.positions(), 1);
    EXPECT_EQ(regression.classes(), 12);
}

TEST(Tokens, RefusesTokensAndLabelsOutOfRange) {
    OwnedReplica owned(token_network(3, 9), 1);
    OwnedBatch batch = random_batch(owned.replica.graph(), 4, 1);
    const auto message = [&] {
        try {
            owned.replica.train_step(batch.view());
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string("no error");
    };
    batch.tokens[7] = 9;
    EXPECT_EQ(message(),
              "[tokens] token beyond the vocabulary; expected 0..8, got 9 in sample 2 of "
              "the batch");
    std::vector<float> logits(4 * 27);
    EXPECT_THROW(owned.replica.infer(batch.view(), logits), UsageError);
    batch.tokens[7] = 8;
    batch.labels[11] = -1;
    EXPECT_EQ(message(),
              "[tokens] label out of range; expected 0..8, got -1 in sample 3 of the batch");
    batch.labels[11] = 0;
    EXPECT_EQ(message(), "no error");
    batch.tokens.clear();
    EXPECT_NE(message().find("empty batch"), std::string::npos);
}

// Plans of several batch sizes are kept; what one of them makes of the rows must not change what
// another one does.
TEST(Tokens, GradientsDoNotDependOnTheBatchesBefore) {
    const Graph graph = token_network(35, 5000);
    const OwnedBatch small = random_batch(graph, 2, 1);
    const OwnedBatch large = random_batch(graph, 6, 2);
    OwnedReplica seasoned(graph, 2, true);
    seasoned.replica.initialise(3);
    for (const OwnedBatch* batch : {&large, &small, &large, &small}) {
        seasoned.replica.train_step(batch->view());
        OwnedReplica fresh(graph, 2, true);
        fresh.replica.initialise(3);
        fresh.replica.train_step(batch->view());
        EXPECT_TRUE(std::ranges::equal(seasoned.replica.gradients(), fresh.replica.gradients()))
            << "a batch of " << batch->view().size;
    }
}

TEST(Tokens, OnlyAnEmbeddingReadsThem) {
    GraphBuilder net("tokens", TokenInput{3, 9});
    EXPECT_THROW(net.linear(net.input(), {.features = 2}), ShapeError);
    EXPECT_THROW(net.flatten(net.input()), ShapeError);
    const Value x = net.embedding(net.input(), {.features = 4});
    EXPECT_THROW(net.embedding(x, {.features = 4}), ShapeError);
    EXPECT_THROW(net.embedding(net.input(), {.features = 0}), ShapeError);
    GraphBuilder numbers("numbers", Shape{3});
    EXPECT_THROW(numbers.embedding(numbers.input(), {.features = 4}), ShapeError);
    EXPECT_THROW(GraphBuilder("none", TokenInput{0, 9}), ShapeError);
    EXPECT_THROW(GraphBuilder("none", TokenInput{3, 0}), ShapeError);
}

TEST(Attention, RefusesHeadsThatDoNotDivide) {
    GraphBuilder net("heads", Shape{3, 12});
    EXPECT_THROW(net.attention(net.input(), {.heads = 3}), ShapeError);  // 4 features
    EXPECT_THROW(net.attention(net.input(), {.heads = 0}), ShapeError);
    EXPECT_EQ(net.shape(net.attention(net.input(), {.heads = 4})), (Shape{3, 4}));
    GraphBuilder odd("odd", Shape{3, 10});
    EXPECT_THROW(odd.attention(odd.input(), {.heads = 1}), ShapeError);
}

/// The input itself is queries, keys and values.
std::vector<float> attend(std::int64_t positions, const AttentionOptions& options,
                          const std::vector<float>& samples) {
    const auto features = static_cast<std::int64_t>(samples.size()) / positions;
    GraphBuilder net("attend", Shape{positions, features});
    const Value x = net.attention(net.input(), options);
    OwnedReplica owned(net.finish_regression(net.linear(x, {.features = features / 3})), 1);
    for (std::int64_t f = 0; f < features / 3; ++f) {  // the linear layer changes nothing
        owned.replica.parameters()[static_cast<std::size_t>(f * (features / 3 + 1))] = 1.0F;
    }
    std::vector<float> outputs(static_cast<std::size_t>(positions * features / 3));
    owned.replica.infer({.samples = samples.data(), .size = 1}, outputs);
    return outputs;
}

TEST(Attention, IsAMeanOfValuesWhereScoresAreEqual) {
    // Queries of zero: every key counts alike.
    const std::vector<float> samples{0, 5, 1, 0, -3, 2, 0, 9, 6};
    EXPECT_EQ(attend(3, {.heads = 1, .causal = true}, samples), (std::vector<float>{1, 1.5F, 3}));
    EXPECT_EQ(attend(3, {.heads = 1, .causal = false}, samples), (std::vector<float>{3, 3, 3}));
}

TEST(Embedding, GivesGradientsToRowsThatOccurAlone) {
    OwnedReplica owned(token_network(3, 50), 2);
    owned.replica.initialise(1);
    OwnedBatch batch = random_batch(owned.replica.graph(), 4, 2);
    const FlatRange* table = owned.replica.graph().parameters().find("embedding1.weight");
    assign(owned.replica, owned.replica.gradients(), 7.0F);
    owned.replica.train_step(batch.view());
    const std::set<std::int32_t> occurred(batch.tokens.begin(), batch.tokens.end());
    for (std::int32_t token = 0; token < 50; ++token) {
        const float* row = owned.replica.gradients().data() + table->offset + token * 4;
        const bool all_zero = std::all_of(row, row + 4, [](float value) { return value == 0; });
        EXPECT_EQ(all_zero, !occurred.contains(token)) << token;
    }
}

TEST(Tied, IsAnnouncedOnceAfterItsLastContribution) {
    GraphBuilder net("tied", TokenInput{4, 33});
    const Value x = net.embedding(net.input(), {.features = 8});
    const Graph graph = net.finish(net.linear_tied(net.lstm(x, {.hidden = 8}), x));
    EXPECT_EQ(graph.parameters().find("linear1.weight"), nullptr);
    OwnedReplica owned(graph, 2);
    owned.replica.initialise(3);
    const OwnedBatch batch = random_batch(graph, 6, 3);
    owned.replica.train_step(batch.view());
    const std::vector<float> wanted = host_copy(owned.replica, owned.replica.gradients());

    struct Watch : StepObserver {
        explicit Watch(std::span<const float> all) : gradients(all) {}
        void gradient_ready(std::int64_t begin, std::int64_t end) override {
            seen.insert(seen.end(), gradients.begin() + begin, gradients.begin() + end);
            ranges.emplace_back(begin, end);
        }
        std::span<const float> gradients;
        std::vector<float> seen;
        std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    } watch(owned.replica.gradients());
    owned.replica.train_step(batch.view(), 0, watch);
    ASSERT_EQ(watch.ranges.size(), 4U);  // of the LSTM three
    const FlatRange* table = graph.parameters().find("embedding1.weight");
    EXPECT_EQ(watch.ranges.back(), std::pair(table->offset, table->offset + table->size));
    EXPECT_TRUE(std::equal(watch.seen.end() - table->size, watch.seen.end(),
                           wanted.begin() + table->offset));
}

TEST(Tied, RefusesWhatIsNoTable) {
    GraphBuilder net("tied", TokenInput{4, 33});
    const Value x = net.embedding(net.input(), {.features = 8});
    const Value y = net.lstm(x, {.hidden = 7});
    EXPECT_THROW(net.linear_tied(y, x), ShapeError);
    EXPECT_THROW(net.linear_tied(x, y), UsageError);
    EXPECT_THROW(net.linear_tied(x, net.input()), UsageError);
}

TEST(Position, StartsWithTheWavesOfThePaper) {
    GraphBuilder net("waves", Shape{3, 4});
    const Value x = net.position(net.linear(net.input(), {.features = 4}), {.learned = false});
    OwnedReplica owned(net.finish_regression(x), 1);  // weights are zero until initialised
    const std::vector<float> samples(12, 1.0F);
    std::vector<float> outputs(12);
    owned.replica.infer({.samples = samples.data(), .size = 1}, outputs);
    for (std::size_t t = 0; t < 3; ++t) {
        const auto time = static_cast<double>(t);
        EXPECT_NEAR(outputs[4 * t], std::sin(time), 1e-6);
        EXPECT_NEAR(outputs[4 * t + 1], std::cos(time), 1e-6);
        EXPECT_NEAR(outputs[4 * t + 2], std::sin(time / 100), 1e-6);
        EXPECT_NEAR(outputs[4 * t + 3], std::cos(time / 100), 1e-6);
    }
}

}  // namespace
}  // namespace cohort::test
