#include <algorithm>
#include <map>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/model/graph.hpp"

namespace cohort {
namespace {

int consumers_of(const std::vector<Graph::Node>& nodes, int value) {
    int count = 0;
    for (const Graph::Node& node : nodes) {
        count += static_cast<int>(std::count(node.inputs.begin(), node.inputs.end(), value));
    }
    return count;
}

int producer_of(const std::vector<Graph::Node>& nodes, int value) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i].output == value) {
            return static_cast<int>(i);
        }
    }
    return -1;
}

/// The node that makes `value` when only one consumer reads it, else -1.
int private_producer(const std::vector<Graph::Node>& nodes, int value) {
    return consumers_of(nodes, value) == 1 ? producer_of(nodes, value) : -1;
}

/// node(x) followed by add(., other) becomes node(x, other), placed where the add was.
bool fuse_add(std::vector<Graph::Node>& nodes, std::size_t at) {
    const Graph::Node add = nodes[at];
    if (add.inputs[0] == add.inputs[1]) {
        return false;
    }
    const int first = private_producer(nodes, add.inputs[0]);
    const int second = private_producer(nodes, add.inputs[1]);
    for (const int candidate : {std::max(first, second), std::min(first, second)}) {
        if (candidate < 0) {
            continue;
        }
        Graph::Node fused = nodes[static_cast<std::size_t>(candidate)];
        auto layer = fused.layer->with_add();
        if (layer == nullptr) {
            continue;
        }
        fused.layer = std::move(layer);
        fused.inputs.push_back(fused.output == add.inputs[0] ? add.inputs[1] : add.inputs[0]);
        fused.output = add.output;
        nodes[at] = std::move(fused);
        nodes.erase(nodes.begin() + candidate);
        return true;
    }
    return false;
}

/// node followed by relu becomes node with ReLU.
bool fuse_relu(std::vector<Graph::Node>& nodes, std::size_t at) {
    const int producer = private_producer(nodes, nodes[at].inputs[0]);
    if (producer < 0) {
        return false;
    }
    Graph::Node& node = nodes[static_cast<std::size_t>(producer)];
    auto layer = node.layer->with_relu();
    if (layer == nullptr) {
        return false;
    }
    node.layer = std::move(layer);
    node.output = nodes[at].output;
    nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(at));
    return true;
}

void fuse(std::vector<Graph::Node>& nodes) {
    for (std::size_t at = 0; at < nodes.size();) {
        const std::string_view kind = nodes[at].layer->kind();
        const bool fused =
            (kind == "add" && fuse_add(nodes, at)) || (kind == "relu" && fuse_relu(nodes, at));
        at += fused ? 0 : 1;
    }
}

/// Tokens go to an embedding, and an embedding gets nothing else.
void check_reads_tokens(const Graph& graph, std::string_view layer, int input) {
    const bool tokens = input == 0 && graph.reads_tokens();
    const bool token_layer = layer == "embedding";
    if (tokens != token_layer) {
        fail<ShapeError>({.where = graph.name() + "." + std::string(layer),
                          .what = tokens ? "this layer computes with numbers, not with tokens"
                                         : "an embedding reads tokens, not numbers",
                          .expected = tokens ? "an embedding between the input and this layer"
                                             : "the input of a network of tokens"});
    }
}

/// Shapes of a new layer's inputs. Errors: UsageError for one that is no value of the network,
/// ShapeError for tokens where numbers belong and the other way round.
std::vector<Shape> shapes_of(const Graph& graph, std::string_view layer,
                             const std::vector<Value>& inputs) {
    std::vector<Shape> shapes;
    for (const Value input : inputs) {
        if (input.index < 0 || input.index >= graph.values()) {
            fail<UsageError>({.where = graph.name() + "." + std::string(layer),
                              .what = "input is not a value of this network"});
        }
        check_reads_tokens(graph, layer, input.index);
        shapes.push_back(graph.shape(input));
    }
    return shapes;
}

}  // namespace

GraphBuilder::GraphBuilder(std::string name, const Shape& input) {
    if (input.rank() < 1 || input.rank() > 3) {
        fail<ShapeError>({.where = name,
                          .what = "unusable input shape",
                          .expected = "[C,H,W], [T,F] or [F]",
                          .got = to_string(input)});
    }
    graph_.name_ = std::move(name);
    graph_.shapes_.push_back(input);
}

GraphBuilder::GraphBuilder(std::string name, const TokenInput& input)
    : GraphBuilder(std::move(name), Shape{std::max<std::int64_t>(input.positions, 1)}) {
    if (input.positions < 1 || input.vocabulary < 1) {
        fail<ShapeError>({.where = graph_.name_,
                          .what = "unusable token input",
                          .expected = "at least 1 position and 1 token",
                          .got = std::to_string(input.positions) + " positions, a vocabulary of " +
                                 std::to_string(input.vocabulary)});
    }
    graph_.vocabulary_ = input.vocabulary;
}

Value GraphBuilder::embedding(Value tokens, const EmbeddingOptions& options) {
    return append(make_embedding(options, graph_.vocabulary_), {tokens});
}

Value GraphBuilder::linear_tied(Value x, Value embedding, const std::string& name) {
    const int producer = producer_of(graph_.nodes_, embedding.index);
    const auto index = static_cast<std::size_t>(producer);
    if (producer < 0 || graph_.nodes_[index].layer->kind() != "embedding") {
        fail<UsageError>({.where = graph_.name_ + ".linear_tied",
                          .what = "the weight is not that of an embedding",
                          .expected = "the output of an embedding"});
    }
    const int table = graph_.nodes_[index].parameter_ranges.front();
    const Shape& shape = graph_.parameters_.ranges()[static_cast<std::size_t>(table)].shape;
    const Shape& input = graph_.shape(x);
    if (input.rank() != 2 || input[1] != shape[1]) {
        fail<ShapeError>({.where = graph_.name_ + ".linear_tied",
                          .what = "input does not fit the embedding's table",
                          .expected = "[T," + std::to_string(shape[1]) + "]",
                          .got = to_string(input)});
    }
    return append(make_linear({.features = shape[0], .bias = false}), {x}, name, table);
}

Value GraphBuilder::append(std::shared_ptr<const Layer> layer, const std::vector<Value>& inputs,
                           const std::string& name, int tied) {
    const std::vector<Shape> shapes = shapes_of(graph_, layer->kind(), inputs);
    Graph::Node node;
    node.name = name;
    for (const auto [input] : inputs) {
        node.inputs.push_back(input);
    }
    if (name.empty()) {
        const std::string base = (scope_.empty() ? "" : scope_ + ".") + std::string(layer->kind());
        node.name = base + std::to_string(++made_[base]);
    }
    if (std::ranges::count(graph_.nodes_, node.name, &Graph::Node::name) > 0) {
        fail<UsageError>({.where = graph_.name_ + "." + node.name,
                          .what = "two layers have this name",
                          .expected = "a name for each"});
    }
    node.output = graph_.values();
    try {
        graph_.shapes_.push_back(layer->infer(shapes));
    } catch (const ShapeError& error) {
        throw ShapeError("[" + graph_.name_ + "." + node.name + "] " + error.what());
    }
    node.tied = tied >= 0;
    for (const TensorSpec& spec : layer->parameters(shapes)) {
        if (node.tied && node.parameter_ranges.empty()) {
            node.parameter_ranges.push_back(tied);
            continue;
        }
        node.parameter_ranges.push_back(
            graph_.parameters_.add(node.name + "." + spec.name, spec.shape, spec.decay));
        graph_.initialisations_.push_back(spec.initialisation);
    }
    for (const TensorSpec& spec : layer->state(shapes)) {
        node.state_ranges.push_back(
            graph_.state_.add(node.name + "." + spec.name, spec.shape, spec.decay));
        graph_.state_initialisations_.push_back(spec.initialisation);
    }
    node.layer = std::move(layer);
    graph_.nodes_.push_back(std::move(node));
    return Value{graph_.nodes_.back().output};
}

Graph GraphBuilder::finish_with(Value outputs, LossKind loss) {
    const bool classes = loss == LossKind::kSoftmaxCrossEntropy;
    if (outputs.index <= 0 || outputs.index >= graph_.values() ||
        graph_.shape(outputs).rank() > 2 || consumers_of(graph_.nodes_, outputs.index) != 0) {
        fail<ShapeError>({.where = graph_.name_,
                          .what = classes ? "unusable logits" : "unusable outputs",
                          .expected = classes
                                          ? "the unread output of a layer, shape [classes] or "
                                            "[T, classes]"
                                          : "the unread output of a layer, shape [K] or [T,K]"});
    }
    if (graph_.parameters_.total() == 0) {
        fail<UsageError>({.where = graph_.name_, .what = "the network has no parameters"});
    }
    for (const Graph::Node& node : graph_.nodes_) {
        if (node.output != outputs.index && consumers_of(graph_.nodes_, node.output) == 0) {
            fail<UsageError>({.where = graph_.name_ + "." + node.name,
                              .what = "nothing reads this layer's output",
                              .expected = classes ? "layers that lead to the logits"
                                                  : "layers that lead to the outputs",
                              .hint = "leaving the layer out"});
        }
    }
    graph_.logits_ = outputs;
    graph_.loss_ = loss;
    graph_.layers_ = graph_.nodes_;
    // Fusion must not change the logits value: its consumer is the loss.
    fuse(graph_.nodes_);
    return std::exchange(graph_, Graph{});
}

}  // namespace cohort
