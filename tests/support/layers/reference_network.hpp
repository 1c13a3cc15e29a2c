#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cohort/model/graph.hpp"
#include "support/layers/reference_layers.hpp"

namespace cohort::test {

/// Of a number to one of a shorter type.
using Rounding = double (*)(double);

/// One batch for the reference.
struct ReferenceBatch {
    ReferenceTensor samples;           ///< or tokens
    std::vector<std::int32_t> labels;  ///< [N, positions]
    std::vector<double> targets;       ///< [N, outputs]; squared error
    std::vector<std::int64_t> ids;
    std::uint64_t seed = 0;
    std::uint32_t epoch = 0;
    /// Rounds to the numbers of a shorter type: the samples, the weights of products, and whatever
    /// a layer hands on, forward and backward; sums stay double. What mixed precision does, to see
    /// how far it may be from the truth. nullptr: nothing is rounded.
    Rounding rounded = nullptr;
    bool notes_kinks = false;  ///< for ReferenceResult::kinks, which may be many
};

/// To numbers of `kBits` significant bits, ties to even; exponents without limits.
template <int kBits>
double rounded_to_bits(double value) {
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(fraction, kBits)), exponent - kBits);
}

/// The same towards zero: what is left of a rounding whose half unit was forgotten.
template <int kBits>
double truncated_to_bits(double value) {
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    return std::ldexp(std::trunc(std::ldexp(fraction, kBits)), exponent - kBits);
}

/// To such numbers divided by a factor between one and two: a grid that is as fine, beside the
/// first. What it rounds off has the same distribution, and nothing else to do with it.
template <int kBits, int kSixteenths>
double rounded_beside(double value) {
    constexpr double kFactor = 1 + kSixteenths / 16.0;
    return rounded_to_bits<kBits>(value * kFactor) / kFactor;
}

/// Beside all of those.
template <int kBits>
double rounded_between(double value) {
    constexpr double kFactor = 1.34;
    return rounded_to_bits<kBits>(value * kFactor) / kFactor;
}

struct ReferenceResult {
    double loss_sum = 0;
    double correct = 0;
    std::vector<double> logits;     ///< [N, outputs]
    std::vector<double> gradients;  ///< of the mean loss, layout of graph.parameters()
    std::vector<double> input_gradient;
    std::vector<double> batch_state;   ///< layout of graph.state()
    std::vector<ReferenceKink> kinks;  ///< in the order of the forward pass, where asked for
};

/// All kinks are on the same sides.
[[nodiscard]] bool same_sides(const ReferenceResult& a, const ReferenceResult& b);

/// A network exactly as described to the builder, before anything was fused, in double.
class ReferenceNetwork {
public:
    void append(const std::string& name, ReferenceMade layer, std::vector<int> inputs,
                const Shape& output);

    /// Forward, and in training form backward. The flat buffers are those of `graph`.
    [[nodiscard]] ReferenceResult run(const Graph& graph, const std::vector<double>& parameters,
                                      const std::vector<double>& state, const ReferenceBatch& batch,
                                      bool training) const;
    /// A step of training with another objective in the loss's place: `pulls`, asked for after the
    /// forward pass, are its slopes by single elements of values.
    struct Pull {
        int value;
        std::size_t element;
        double slope;
    };
    [[nodiscard]] ReferenceResult run_towards(
        const Graph& graph, const std::vector<double>& parameters, const std::vector<double>& state,
        const ReferenceBatch& batch,
        const std::function<std::vector<Pull>(const ReferenceResult&)>& pulls) const;

private:
    struct Node {
        std::string name;
        std::shared_ptr<const ReferenceLayer> layer;
        std::vector<int> inputs;
        Shape output;
    };
    class Run;
    std::vector<Node> nodes_;
};

/// A network and its reference.
struct Twin {
    Graph graph;
    ReferenceNetwork reference;
};

/// Describes one network to GraphBuilder and to the reference at once.
class TwinBuilder {
public:
    explicit TwinBuilder(const Shape& input) : net_("twin", input) {}
    explicit TwinBuilder(const TokenInput& input) : net_("twin", input) {}

    [[nodiscard]] Value input() const { return net_.input(); }
    void scope(const std::string& prefix) {
        net_.scope(prefix);
        scope_ = prefix;
    }
    [[nodiscard]] const Shape& shape(Value value) const { return net_.shape(value); }

    Value conv(Value x, const ConvOptions& o) {
        return note("conv", net_.conv(x, o), reference_conv(o), {x});
    }
    Value linear(Value x, const LinearOptions& o) {
        return note("linear", net_.linear(x, o), reference_linear(o), {x});
    }
    Value lstm(Value x, const LstmOptions& o) {
        return note("lstm", net_.lstm(x, o), reference_lstm(o), {x});
    }
    Value last_position(Value x) {
        return note("last_position", net_.last_position(x), reference_last_position(), {x});
    }
    Value embedding(Value x, const EmbeddingOptions& o) {
        return note("embedding", net_.embedding(x, o), reference_embedding(o), {x});
    }
    Value position(Value x, const PositionOptions& o = {}) {
        return note("position", net_.position(x, o), reference_position(o), {x});
    }
    Value layer_norm(Value x, const LayerNormOptions& o = {}) {
        return note("layer_norm", net_.layer_norm(x, o), reference_layer_norm(o), {x});
    }
    Value attention(Value x, const AttentionOptions& o) {
        return note("attention", net_.attention(x, o), reference_attention(o), {x});
    }
    /// @param owner  name of the embedding
    Value linear_tied(Value x, Value embedding, const std::string& owner);
    Value batch_norm(Value x, const BatchNormOptions& o = {}) {
        return note("batch_norm", net_.batch_norm(x, o), reference_batch_norm(o), {x});
    }
    Value activation(Value x, ActivationKind kind);
    Value relu(Value x) { return activation(x, ActivationKind::kRelu); }
    Value pool(Value x, PoolKind kind, const PoolOptions& o = {});
    Value add(Value a, Value b) { return note("add", net_.add(a, b), reference_add(), {a, b}); }
    Value concat(const std::vector<Value>& parts) {
        return note("concat", net_.concat(parts), reference_concat(), parts);
    }
    Value flatten(Value x) { return note("flatten", net_.flatten(x), reference_flatten(), {x}); }
    Value dropout(Value x, float probability) {
        const auto stream = static_cast<std::uint32_t>(layers_);
        return note("dropout", net_.dropout(x, probability), reference_dropout(probability, stream),
                    {x});
    }
    /// Flatten and a linear layer to `classes`, then the end.
    [[nodiscard]] Twin finish_linear(Value x, std::int64_t classes = 5);
    [[nodiscard]] Twin finish(Value logits) { return {net_.finish(logits), std::move(reference_)}; }
    [[nodiscard]] Twin finish_regression(Value outputs) {
        return {net_.finish_regression(outputs), std::move(reference_)};
    }

private:
    /// @param owner  node whose parameters it has; empty: its own
    Value note(const std::string& kind, Value value, ReferenceMade layer,
               const std::vector<Value>& inputs, const std::string& owner = {});

    GraphBuilder net_;
    ReferenceNetwork reference_;
    std::string scope_;
    std::map<std::string, int> made_;  ///< by scope and kind
    int layers_ = 0;
};

/// ReLU6 of 8 x: x alone would seldom reach the bound.
inline Value relu6_of_large(TwinBuilder& net, Value x) {
    for (int doubled = 0; doubled < 3; ++doubled) {
        x = net.add(x, x);
    }
    return net.activation(x, ActivationKind::kRelu6);
}

}  // namespace cohort::test
