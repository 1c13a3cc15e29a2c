#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/layers/layer.hpp"
#include "cohort/tensor/flat_layout.hpp"
#include "cohort/tensor/shape.hpp"

namespace cohort {

/// A tensor with its values, [shape] in row-major order.
struct NamedTensor {
    std::string name;
    Shape shape;
    std::vector<float> values;
};

/// A tensor in a network under construction; one sample's shape is graph.shape(value).
struct Value {
    int index = -1;
};

/// A network: a directed acyclic graph of layers from one input to one loss.
/// Made by GraphBuilder; immutable, copyable, no memory or device attached.
class Graph {
public:
    struct Node {
        std::string name;  ///< unique; parameter names start with it
        std::shared_ptr<const Layer> layer;
        std::vector<int> inputs;            ///< values
        int output = -1;                    ///< value
        std::vector<int> parameter_ranges;  ///< indices into parameters().ranges()
        bool tied = false;                  ///< the first of them is that of an earlier node
        std::vector<int> state_ranges;      ///< indices into state().ranges()
    };

    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] const Shape& input_shape() const noexcept { return shapes_.front(); }
    [[nodiscard]] LossKind loss() const noexcept { return loss_; }
    /// Classes that a label can have; of a regression the outputs of a sample.
    [[nodiscard]] std::int64_t classes() const noexcept { return outputs() / positions(); }
    /// Labels of a sample: T where the logits are [T,V], else 1 (also for a regression).
    [[nodiscard]] std::int64_t positions() const noexcept;
    /// Numbers that infer() returns per sample: positions() * classes().
    [[nodiscard]] std::int64_t outputs() const noexcept;
    /// The input is tokens, 32-bit integers 0..vocabulary()-1, instead of numbers.
    [[nodiscard]] bool reads_tokens() const noexcept { return vocabulary_ > 0; }
    /// Number of different tokens; 0 where the input is numbers.
    [[nodiscard]] std::int64_t vocabulary() const noexcept { return vocabulary_; }
    /// Trainable parameters (flat buffer table).
    [[nodiscard]] const FlatLayout& parameters() const noexcept { return parameters_; }
    /// Non-trainable state: running mean and variance of batch norms (flat buffer table).
    [[nodiscard]] const FlatLayout& state() const noexcept { return state_; }
    /// In the order in which they are computed, fused where possible.
    [[nodiscard]] const std::vector<Node>& nodes() const noexcept { return nodes_; }
    /// As they were added to the builder, none fused.
    [[nodiscard]] const std::vector<Node>& layers() const noexcept { return layers_; }
    [[nodiscard]] const Shape& shape(Value value) const {
        return shapes_.at(static_cast<std::size_t>(value.index));
    }
    [[nodiscard]] int values() const noexcept { return static_cast<int>(shapes_.size()); }
    /// The output value (value 0 is the input): the logits, [classes] or [T, classes] per sample,
    /// or the outputs of a regression, [K] or [T,K].
    [[nodiscard]] Value logits() const noexcept { return logits_; }
    /// Floating-point operations of products (a multiply-add counts 2) for one sample: forward, and
    /// in training forward and backward.
    [[nodiscard]] double forward_flops_per_sample() const;
    [[nodiscard]] double training_flops_per_sample() const;

    /// The same network with another loss of its outputs.
    [[nodiscard]] Graph with_loss(LossKind loss) const;

    /// Draws initial values for both flat buffers (host memory) from `seed`; each tensor has its
    /// own random stream, so the numbers depend only on the seed and the network. Tensors that
    /// start_from has given values get those.
    void initialise(std::uint64_t seed, std::span<float> parameters, std::span<float> state) const;
    /// Gives tensors, by their names in parameters() and state(), the values that they start from.
    /// Errors: UsageError for a tensor that the network has not, or of another size.
    void start_from(std::map<std::string, std::vector<float>> values);

private:
    friend class GraphBuilder;
    friend const std::map<std::string, std::vector<float>>* start_values(
        const Graph& graph) noexcept;
    friend Graph make_tensor_graph(std::string name, const std::vector<NamedTensor>& parameters,
                                   const std::vector<NamedTensor>& state);
    std::string name_;
    std::vector<Node> nodes_;
    std::vector<Node> layers_;
    std::vector<Shape> shapes_;
    FlatLayout parameters_;
    FlatLayout state_;
    std::vector<Initialisation> initialisations_;        ///< per parameter range
    std::vector<Initialisation> state_initialisations_;  ///< per state range
    Value logits_;
    LossKind loss_ = LossKind::kSoftmaxCrossEntropy;
    std::int64_t vocabulary_ = 0;
    std::shared_ptr<const std::map<std::string, std::vector<float>>> start_;  ///< null: none
};

/// The same of one node.
struct NodeFlops {
    double forward = 0;
    double backward = 0;
};
[[nodiscard]] std::vector<NodeFlops> flops_per_sample(const Graph& graph);

/// Values that start_from has given, by name; null: none.
[[nodiscard]] const std::map<std::string, std::vector<float>>* start_values(
    const Graph& graph) noexcept;

/// One line per layer: name, kind, output shape, parameters, MFLOP of one sample's forward pass.
[[nodiscard]] std::string describe(const Graph& graph);

/// A network of tensors alone, without layers: something else computes it.
/// Initial values are those given, whatever the seed. Errors: UsageError for a name that comes
/// twice, no parameters, or values that do not fill their shape.
[[nodiscard]] Graph make_tensor_graph(std::string name, const std::vector<NamedTensor>& parameters,
                                      const std::vector<NamedTensor>& state);

/// The input of a network that reads text.
struct TokenInput {
    std::int64_t positions = 0;   ///< tokens of a sample, T
    std::int64_t vocabulary = 0;  ///< different tokens, V
};

/// Builds a network layer by layer:
///
///     GraphBuilder net("tiny", Shape{1, 28, 28});
///     Value x = net.conv(net.input(), {.channels = 8, .kernel = 3, .stride = 2, .padding = 1});
///     x = net.relu(net.batch_norm(x));
///     x = net.linear(net.flatten(x), {.features = 10});
///     Graph graph = net.finish(x);
///
/// Every call checks shapes at once. Errors: ShapeError naming the layer, expected and got.
/// Layers get running names ("conv1", "linear3"); a scope adds a prefix.
class GraphBuilder {
public:
    /// @param input shape of one sample, [C,H,W], [F] or a sequence [T,F]
    GraphBuilder(std::string name, const Shape& input);
    /// A network of tokens: the input has shape [T]; only an embedding can read it.
    GraphBuilder(std::string name, const TokenInput& input);

    [[nodiscard]] Value input() const noexcept { return Value{0}; }
    /// Layers made from now on are called `prefix.name`; an empty prefix ends the scope.
    void scope(std::string prefix) { scope_ = std::move(prefix); }

    Value conv(Value x, const ConvOptions& options) { return append(make_conv(options), {x}); }
    /// [F] -> [features]; [T,F] -> [T,features].
    Value linear(Value x, const LinearOptions& options) {
        return append(make_linear(options), {x});
    }
    /// [T,F] -> [T,hidden].
    Value lstm(Value x, const LstmOptions& options) { return append(make_lstm(options), {x}); }
    /// Tokens [T] -> [T,features]; only of the input of a network that reads tokens.
    Value embedding(Value tokens, const EmbeddingOptions& options);
    /// [T,F] -> [T,V]: a linear layer without bias whose weight is the table [V,F] of `embedding`,
    /// the output of an embedding (Press & Wolf 2017). Their gradients are added.
    Value linear_tied(Value x, Value embedding, const std::string& name = {});
    /// [T,F] -> [T,F].
    Value position(Value x, const PositionOptions& options = {}) {
        return append(make_position(options), {x});
    }
    /// [F] or [T,F], every position by itself.
    Value layer_norm(Value x, const LayerNormOptions& options = {}) {
        return append(make_layer_norm(options), {x});
    }
    /// Queries, keys and values side by side, [T,3F] -> [T,F].
    Value attention(Value x, const AttentionOptions& options) {
        return append(make_attention(options), {x});
    }
    /// [T,F] -> [F].
    Value last_position(Value x) { return append(make_last_position(), {x}); }
    Value batch_norm(Value x, const BatchNormOptions& options = {}) {
        return append(make_batch_norm(options), {x});
    }
    Value relu(Value x) { return append(make_activation(ActivationKind::kRelu), {x}); }
    /// min(max(x, 0), 6) (Krizhevsky 2010); never fused with the layer before it.
    Value relu6(Value x) { return append(make_activation(ActivationKind::kRelu6), {x}); }
    Value gelu(Value x) { return append(make_activation(ActivationKind::kGelu), {x}); }
    Value sigmoid(Value x) { return append(make_activation(ActivationKind::kSigmoid), {x}); }
    Value tanh(Value x) { return append(make_activation(ActivationKind::kTanh), {x}); }
    Value max_pool(Value x, const PoolOptions& options) {
        return append(make_pool(PoolKind::kMax, options), {x});
    }
    Value average_pool(Value x, const PoolOptions& options) {
        return append(make_pool(PoolKind::kAverage, options), {x});
    }
    /// [C,H,W] -> [C,1,1].
    Value global_average_pool(Value x) {
        return append(make_pool(PoolKind::kGlobalAverage, {}), {x});
    }
    /// Elementwise sum of equal shapes.
    Value add(Value a, Value b) { return append(make_add(), {a, b}); }
    /// Joins [Ci,H,W] along the channels, [Fi] or [T,Fi] along the features.
    Value concat(const std::vector<Value>& parts) { return append(make_concat(), parts); }
    /// [C,H,W] -> [C*H*W], [T,F] -> [T*F].
    Value flatten(Value x) { return append(make_flatten(), {x}); }
    /// @param probability of dropping an element, in [0, 1)
    Value dropout(Value x, float probability) {
        return append(make_dropout(probability, static_cast<std::uint32_t>(graph_.nodes_.size())),
                      {x});
    }

    /// Adds any layer. @param name  of the layer, no other's; empty: a running name
    /// @param tied  range that takes the place of the layer's first parameter; -1: none
    Value append(std::shared_ptr<const Layer> layer, const std::vector<Value>& inputs,
                 const std::string& name = {}, int tied = -1);

    /// Ends the network with mean softmax cross entropy on `logits`, shape [classes], or
    /// [T, classes] with a label per position (the loss of a sample is the mean over its
    /// positions), and fuses layers where possible (batch norm + add + ReLU). The builder is empty
    /// afterwards.
    /// Errors: ShapeError for unusable logits, UsageError for a layer whose output is not used or a
    /// network without parameters.
    [[nodiscard]] Graph finish(Value logits) {
        return finish_with(logits, LossKind::kSoftmaxCrossEntropy);
    }
    /// Ends the network with the mean squared error of `outputs`, shape [K] or [T,K], from as many
    /// targets: the mean over a sample's outputs and over the batch. Errors: as finish.
    [[nodiscard]] Graph finish_regression(Value outputs) {
        return finish_with(outputs, LossKind::kMeanSquaredError);
    }

    [[nodiscard]] const Shape& shape(Value value) const { return graph_.shape(value); }

private:
    [[nodiscard]] Graph finish_with(Value outputs, LossKind loss);

    Graph graph_;
    std::string scope_;
    std::map<std::string, int> made_;  ///< layers made so far by scope and kind
};

}  // namespace cohort
