// Layers of text, and small networks of them.
#include <functional>
#include <string>
#include <utility>

#include "support/gpu/gpu_cases.hpp"

namespace cohort::test {
namespace {

const std::vector<std::int64_t> kSizes{13, 1, 7};

/// A layer of a sequence between two linear layers.
Twin between(std::int64_t positions, std::int64_t width,
             const std::function<Value(TwinBuilder&, Value)>& layer) {
    TwinBuilder net(Shape{positions, 3});
    const Value x = layer(net, net.linear(net.input(), {.features = width}));
    return net.finish_regression(net.linear(x, {.features = 2}));
}

NetworkCase attention_case(std::int64_t positions, std::int64_t features, std::int64_t heads,
                           bool causal) {
    return {"attention_" + std::to_string(positions) + "x" + std::to_string(features) + "_heads_" +
                std::to_string(heads) + (causal ? "_causal" : ""),
            [=] {
                return between(positions, 3 * features, [=](TwinBuilder& net, Value x) {
                    return net.attention(x, {.heads = heads, .causal = causal});
                });
            },
            positions < 60 ? kSizes : std::vector<std::int64_t>{3, 1}};
}

NetworkCase norm_case(std::int64_t positions, std::int64_t features) {
    return {"layer_norm_" + std::to_string(positions) + "x" + std::to_string(features),
            [=] {
                return between(positions, features,
                               [](TwinBuilder& net, Value x) { return net.layer_norm(x); });
            },
            kSizes};
}

NetworkCase position_case(const std::string& name, const PositionOptions& options) {
    return {"position_" + name,
            [=] {
                return between(7, 5,
                               [=](TwinBuilder& net, Value x) { return net.position(x, options); });
            },
            kSizes};
}

/// Logits of every position from an embedding and what `describe` puts on it.
NetworkCase token_case(const std::string& name, const TokenInput& input,
                       std::function<Value(TwinBuilder&, Value)> describe) {
    return {name,
            [=] {
                TwinBuilder net(input);
                const Value x = net.embedding(net.input(), {.features = 6});
                return net.finish(describe(net, x));
            },
            kSizes};
}

Value small_gpt(TwinBuilder& net, Value embedded) {
    Value x = net.dropout(net.position(embedded), 0.3F);
    for (int layer = 0; layer < 2; ++layer) {
        const Value joined = net.linear(net.layer_norm(x), {.features = 18});
        x = net.add(net.linear(net.attention(joined, {.heads = 2}), {.features = 6}), x);
        const Value y =
            net.activation(net.linear(net.layer_norm(x), {.features = 24}), ActivationKind::kGelu);
        x = net.add(net.linear(y, {.features = 6}), x);
    }
    return net.linear_tied(net.layer_norm(x), embedded, "embedding1");
}

}  // namespace

std::vector<NetworkCase> text_cases() {
    std::vector<NetworkCase> cases{
        attention_case(1, 1, 1, true),
        attention_case(1, 4, 2, false),
        attention_case(5, 6, 3, true),
        attention_case(9, 7, 7, false),
        attention_case(9, 16, 2, false),  // widths that cuDNN has fused engines for
        attention_case(11, 8, 1, true),
        attention_case(65, 5, 1, true),
        attention_case(64, 8, 2, true),
        attention_case(131, 6, 2, true),
        attention_case(131, 6, 2, false),
        norm_case(1, 3),
        norm_case(3, 2),
        norm_case(5, 33),
        norm_case(2, 200),
        position_case("learned", {}),
        position_case("learned_scaled", {.scale = 3.5F}),
        position_case("waves", {.learned = false}),
        position_case("waves_scaled", {.learned = false, .scale = 2.5F})};
    const auto linear = [](TwinBuilder& net, Value x) { return net.linear(x, {.features = 11}); };
    cases.push_back(token_case("embedding", {5, 11}, linear));
    cases.push_back(token_case("embedding_of_one", {1, 1}, linear));
    cases.push_back(token_case("many_classes", {3, 2}, [](TwinBuilder& net, Value x) {
        return net.linear(x, {.features = 2500});
    }));
    cases.push_back(token_case("two_lstms", {7, 5}, [](TwinBuilder& net, Value x) {
        x = net.dropout(net.lstm(x, {.hidden = 4}), 0.2F);
        return net.linear(net.lstm(x, {.hidden = 3}), {.features = 5});
    }));
    cases.push_back(token_case("tied", {4, 9}, [](TwinBuilder& net, Value x) {
        return net.linear_tied(net.activation(x, ActivationKind::kTanh), x, "embedding1");
    }));
    cases.push_back(token_case("tied_twice", {4, 9}, [](TwinBuilder& net, Value x) {
        const Value y = net.linear_tied(x, x, "embedding1");
        const Value z = net.linear_tied(net.activation(x, ActivationKind::kTanh), x, "embedding1");
        return net.add(y, z);
    }));
    cases.push_back(token_case("gpt", {6, 13}, small_gpt));
    for (NetworkCase& one : cases) {
        one.every_precision = true;
    }
    cases.push_back(attention_case(1100, 1, 1, true));  // too many scores for all samples at once
    cases.back().sizes = {4};
    return cases;
}

}  // namespace cohort::test
