// Language models: from a window of tokens the next token at every position. Sources: the word
// language models that STAR trains are those of PyTorch's examples (Zaremba et al. 2014 for the
// LSTM, Vaswani et al. 2017 for the Transformer: post-norm, ReLU, sinusoidal positions; the
// probabilities inside of attention are not dropped here); GPT-2 (Radford et al. 2019: pre-norm,
// GELU, learned positions, tied weights). States of the LSTM start at zero in every window.
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "cohort/core/error.hpp"
#include "layers/model/zoo/families.hpp"

namespace cohort::zoo {
namespace {

Value text_linear(GraphBuilder& net, Value x, std::int64_t features) {
    return net.linear(x, {.features = features, .uniform = true});
}

Value self_attention(GraphBuilder& net, Value x, std::int64_t heads) {
    const std::int64_t width = net.shape(x)[1];
    const Value joined = text_linear(net, x, 3 * width);
    return text_linear(net, net.attention(joined, {.heads = heads, .causal = true}), width);
}

/// Post-norm.
Value encoder_layer(GraphBuilder& net, Value x, std::int64_t heads, std::int64_t inner,
                    float dropped) {
    x = net.layer_norm(net.add(net.dropout(self_attention(net, x, heads), dropped), x));
    Value y = net.dropout(net.relu(text_linear(net, x, inner)), dropped);
    y = net.dropout(text_linear(net, y, net.shape(x)[1]), dropped);
    return net.layer_norm(net.add(y, x));
}

/// Pre-norm.
Value decoder_layer(GraphBuilder& net, Value x, std::int64_t heads, float dropped) {
    const std::int64_t width = net.shape(x)[1];
    x = net.add(net.dropout(self_attention(net, net.layer_norm(x), heads), dropped), x);
    const Value y = net.gelu(text_linear(net, net.layer_norm(x), 4 * width));
    return net.add(net.dropout(text_linear(net, y, width), dropped), x);
}

std::string layer_name(std::int64_t index) {
    return "layer" + std::to_string(index);
}

}  // namespace

Graph lstm(const TokenInput& input) {
    constexpr std::int64_t kWidth = 200;
    constexpr float kDropped = 0.2F;
    GraphBuilder net("lstm", input);
    Value x = net.dropout(net.embedding(net.input(), {.features = kWidth}), kDropped);
    for (int layer = 0; layer < 2; ++layer) {
        x = net.dropout(net.lstm(x, {.hidden = kWidth}), kDropped);
    }
    return net.finish(text_linear(net, x, input.vocabulary));
}

Graph transformer(const TokenInput& input) {
    constexpr std::int64_t kWidth = 200;
    constexpr std::int64_t kHeads = 8;
    constexpr float kDropped = 0.2F;
    GraphBuilder net("transformer", input);
    Value x = net.embedding(net.input(), {.features = kWidth});
    const float scale = std::sqrt(static_cast<float>(kWidth));
    x = net.dropout(net.position(x, {.learned = false, .scale = scale}), kDropped);
    for (int layer = 1; layer <= 2; ++layer) {
        net.scope(layer_name(layer));
        x = encoder_layer(net, x, kHeads, kWidth, kDropped);
    }
    net.scope("head");
    return net.finish(text_linear(net, x, input.vocabulary));
}

Graph gpt(const TokenInput& input, const GptSize& size) {
    constexpr float kDropped = 0.1F;
    const std::string name =
        size == GptSize{} ? "gpt" : fmt::format("gpt:{},{},{}", size.width, size.depth, size.heads);
    if (size.width % size.heads != 0) {
        fail<UsageError>({.where = "--model " + name,
                          .what = "the width does not divide into heads",
                          .expected = fmt::format("a width that is a multiple of {}", size.heads),
                          .got = std::to_string(size.width)});
    }
    GraphBuilder net(name, input);
    const Value embedded = net.embedding(net.input(), {.features = size.width});
    Value x = net.dropout(net.position(embedded), kDropped);
    for (std::int64_t layer = 1; layer <= size.depth; ++layer) {
        net.scope(layer_name(layer));
        x = decoder_layer(net, x, size.heads, kDropped);
    }
    net.scope("head");
    return net.finish(net.linear_tied(net.layer_norm(x), embedded));
}

}  // namespace cohort::zoo
