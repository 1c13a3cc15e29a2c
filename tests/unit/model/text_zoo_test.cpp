// The language models of the zoo, described a second time and compared with double precision; their
// sizes, names and errors; learning a rule; memory.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/model/zoo.hpp"
#include "support/core/message_of.hpp"
#include "support/layers/reference_check.hpp"

namespace cohort::test {
namespace {

Graph make_text_model(const std::string& name, std::int64_t positions, std::int64_t vocabulary) {
    return make_model(name, {.shape = Shape{positions}, .classes = vocabulary, .tokens = true});
}

Twin lstm_twin(const TokenInput& input) {
    TwinBuilder net(input);
    Value x = net.dropout(net.embedding(net.input(), {.features = 200}), 0.2F);
    x = net.dropout(net.lstm(x, {.hidden = 200}), 0.2F);
    x = net.dropout(net.lstm(x, {.hidden = 200}), 0.2F);
    return net.finish(net.linear(x, {.features = input.vocabulary}));
}

Value attend(TwinBuilder& net, Value x, std::int64_t heads) {
    const std::int64_t width = net.shape(x)[1];
    const Value joined = net.linear(x, {.features = 3 * width});
    return net.linear(net.attention(joined, {.heads = heads}), {.features = width});
}

Twin transformer_twin(const TokenInput& input) {
    TwinBuilder net(input);
    Value x = net.embedding(net.input(), {.features = 200});
    x = net.dropout(net.position(x, {.learned = false, .scale = std::sqrt(200.0F)}), 0.2F);
    for (const char* layer : {"layer1", "layer2"}) {
        net.scope(layer);
        x = net.layer_norm(net.add(net.dropout(attend(net, x, 8), 0.2F), x));
        Value y = net.dropout(net.relu(net.linear(x, {.features = 200})), 0.2F);
        y = net.dropout(net.linear(y, {.features = 200}), 0.2F);
        x = net.layer_norm(net.add(y, x));
    }
    net.scope("head");
    return net.finish(net.linear(x, {.features = input.vocabulary}));
}

Twin gpt_twin(const TokenInput& input) {
    TwinBuilder net(input);
    const Value embedded = net.embedding(net.input(), {.features = 12});
    Value x = net.dropout(net.position(embedded), 0.1F);
    for (const char* layer : {"layer1", "layer2", "layer3"}) {
        net.scope(layer);
        x = net.add(net.dropout(attend(net, net.layer_norm(x), 6), 0.1F), x);
        const Value y =
            net.activation(net.linear(net.layer_norm(x), {.features = 48}), ActivationKind::kGelu);
        x = net.add(net.dropout(net.linear(y, {.features = 12}), 0.1F), x);
    }
    net.scope("head");
    return net.finish(net.linear_tied(net.layer_norm(x), embedded, "embedding1"));
}

struct TextTwin {
    const char* test;
    const char* model;
    Twin (*make)(const TokenInput&);
    float learning_rate;
};

class TextZoo : public ::testing::TestWithParam<TextTwin> {};

TEST_P(TextZoo, IsTheNetworkOfThePaperAndAgreesInDouble) {
    const TokenInput input{.positions = 5, .vocabulary = 11};
    const Twin twin = GetParam().make(input);
    const Graph graph = make_text_model(GetParam().model, 5, 11);
    ASSERT_EQ(describe(graph), describe(twin.graph));
    EXPECT_EQ(graph.training_flops_per_sample(), twin.graph.training_flops_per_sample());
    // Small values near zero cross the kinks of ReLUs.
    expect_matches({graph, twin.reference}, {3, 1}, {.threads = 2, .tolerance = 2e-4});
}

/// Windows in which the next token follows from the last one.
OwnedBatch ruled_batch(const Graph& graph, std::int64_t size, std::uint64_t seed) {
    OwnedBatch batch = random_batch(graph, size, seed);
    const std::int64_t positions = graph.positions();
    const auto after = [&](std::int32_t token) {
        return static_cast<std::int32_t>((3 * token + 1) % graph.vocabulary());
    };
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
        if (static_cast<std::int64_t>(i) % positions != 0) {
            batch.tokens[i] = after(batch.tokens[i - 1]);
        }
        batch.labels[i] = after(batch.tokens[i]);
    }
    return batch;
}

TEST_P(TextZoo, LearnsARule) {
    const Graph graph = make_text_model(GetParam().model, 4, 10);
    OwnedReplica owned(graph, 2, true);
    Replica& replica = owned.replica;
    replica.initialise(1);
    const OwnedBatch test = ruled_batch(graph, 32, 1000);
    std::vector<float> velocity(replica.parameters().size());
    BatchResult learned = replica.evaluate(test.view());
    EXPECT_GT(learned.loss_sum / 32, 1.5);
    for (std::uint64_t step = 0; step < 500 && learned.loss_sum > 32 * 0.1; ++step) {
        replica.train_step(ruled_batch(graph, 16, step).view(), step);
        for (std::size_t i = 0; i < velocity.size(); ++i) {
            velocity[i] = 0.9F * velocity[i] + replica.gradients()[i];
            replica.parameters()[i] -= GetParam().learning_rate * velocity[i];
        }
        learned = replica.evaluate(test.view());
    }
    EXPECT_LE(learned.loss_sum / 32, 0.1);
    EXPECT_NEAR(learned.correct, 32, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Models, TextZoo,
                         ::testing::Values(TextTwin{"lstm", "lstm", lstm_twin, 0.5F},
                                           TextTwin{"transformer", "transformer", transformer_twin,
                                                    0.05F},
                                           TextTwin{"gpt", "gpt:12,3,6", gpt_twin, 0.2F}),
                         [](const auto& made) { return std::string(made.param.test); });

TEST(TextModels, HaveAsManyParametersAsTheirFormulas) {
    constexpr std::int64_t kWords = 28782;
    const std::int64_t decoder = 200 * kWords + kWords;
    EXPECT_EQ(make_text_model("lstm", 35, kWords).parameters().elements(),
              200 * kWords + 2 * (800 * 400 + 800) + decoder);
    EXPECT_EQ(make_text_model("transformer", 35, kWords).parameters().elements(),
              200 * kWords + 2 * (201 * 600 + 3 * 201 * 200 + 4 * 200) + decoder);
    EXPECT_EQ(
        make_text_model("gpt", 64, 256).parameters().elements(),
        128 * 256 + 64 * 128 + 4 * (2 * 256 + 129 * 384 + 129 * 128 + 129 * 512 + 513 * 128) + 256);
    EXPECT_EQ(make_text_model("gpt:6,1,3", 5, 9).parameters().elements(),
              6 * 9 + 5 * 6 + (2 * 12 + 7 * 18 + 7 * 6 + 7 * 24 + 25 * 6) + 12);
}

TEST(TextModels, SayWhatDoesNotFit) {
    const auto message = [](const auto& make) { return message_of<UsageError>(make); };
    for (const char* name : {"gpt:", "gpt:128", "gpt:128,4", "gpt:128,4,4,4", "gpt:0,1,1",
                             "gpt:8,1,-1", "gpt:8,1,x", "gpt:8,1,2 ", "gpt:99999999,1,1"}) {
        EXPECT_NE(
            message([&] { return make_text_model(name, 4, 9); }).find("gpt:WIDTH,DEPTH,HEADS"),
            std::string::npos)
            << name;
    }
    EXPECT_NE(message([] { return make_text_model("gpt:10,1,3", 4, 9); }).find("multiple of 3"),
              std::string::npos);
    EXPECT_NE(message([] { return make_text_model("gpt-2", 4, 9); }).find("unknown model"),
              std::string::npos);
    EXPECT_NE(message_of<ShapeError>([] {
                  return make_model("lstm", Shape{3, 32, 32}, 10);
              }).find("reads text"),
              std::string::npos);
    for (const char* name : {"resnet20", "mlp", "lenet"}) {
        EXPECT_NE(message_of<ShapeError>([&] {
                      return make_text_model(name, 35, 50);
                  }).find("the data set holds text"),
                  std::string::npos);
    }
    EXPECT_TRUE(reads_text("gpt:8,1,2"));
    EXPECT_FALSE(reads_text("resnet20"));
    EXPECT_FALSE(is_model("resnet21"));
}

/// Nothing that the network keeps has the size of the logits of the batch.
TEST(TextModels, NeverHaveTheLogitsOfABatch) {
    constexpr std::int64_t kWords = 5000;
    const Graph graph = make_text_model("gpt:8,1,2", 35, kWords);
    OwnedReplica owned(graph, 2, true);
    owned.replica.initialise(1);
    owned.replica.train_step(random_batch(graph, 128, 1).view(), 1);
    const std::size_t logits = 128 * 35 * kWords * sizeof(float);
    EXPECT_LT(owned.replica.arena_bytes(), logits / 4);
}

}  // namespace
}  // namespace cohort::test
