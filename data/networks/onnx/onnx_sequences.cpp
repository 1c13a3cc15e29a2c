// Layers of sequences and tokens.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "data/networks/onnx/onnx_builder.hpp"

namespace cohort {
namespace {

using Extents = std::vector<std::int64_t>;

/// Blocks of ONNX's order of gates, input, output, forget, cell, in the order of LstmOptions.
std::vector<float> own_gates(const OnnxTensor& tensor, std::int64_t first, std::int64_t hidden) {
    const std::int64_t row = tensor.elements() / tensor.shape[1];
    std::vector<float> gates;
    for (const std::int64_t gate : {0, 2, 3, 1}) {
        const auto begin = tensor.floats.begin() + (first + gate * hidden) * row;
        gates.insert(gates.end(), begin, begin + hidden * row);
    }
    return gates;
}

bool all_zero(const OnnxTensor& tensor) {
    return std::ranges::all_of(tensor.floats, [](float value) { return value == 0; });
}

/// Of an LSTM that computes something else than the layer.
void refuse_variants(const OnnxBuilder& to, const onnx::Node& node) {
    for (const int state : {5, 6}) {
        const bool given = state < node.input_size() && !node.input(state).empty();
        if (given &&
            (to.constant(node, state) == nullptr || !all_zero(*to.constant(node, state)))) {
            throw OnnxRefusal{"a hidden or cell state that does not start at zero"};
        }
    }
    for (const int extra : {4, 7}) {
        if (extra < node.input_size() && !node.input(extra).empty()) {
            throw OnnxRefusal{"lengths of sequences, or peepholes"};
        }
    }
    const onnx::Attribute* activations = find_attribute(node, "activations");
    const std::vector<std::string> usual{"Sigmoid", "Tanh", "Tanh"};
    if (activations != nullptr && !std::ranges::equal(activations->strings(), usual)) {
        throw OnnxRefusal{"other activations than sigmoid and tanh"};
    }
    if (find_attribute(node, "clip") != nullptr || attribute(node, "input_forget", 0) != 0) {
        throw OnnxRefusal{"clipped gates, or an input gate that is tied to the forget gate"};
    }
}

}  // namespace

void add_onnx_transpose(OnnxBuilder& to, const onnx::Node& node) {
    const OnnxValue& x = to.any_input(node);
    const bool swaps = attribute_ints(node, "perm") == Extents{1, 0, 2} &&
                       to.shape(x.value).rank() == 2 && x.order != OnnxOrder::kTimeDirections;
    if (!swaps) {
        throw OnnxRefusal{
            "axes in another order; only positions and batch change places, around "
            "recurrent layers"};
    }
    to.set_output(node, {x.value, x.order == OnnxOrder::kBatchFirst ? OnnxOrder::kTimeFirst
                                                                    : OnnxOrder::kBatchFirst});
}

void add_onnx_layer_norm(OnnxBuilder& to, const onnx::Node& node) {
    const OnnxTensor& scale = to.weight(node, 1);
    require_weights_of_norm(to, node);
    const Value x = to.input(node);
    const auto rank = static_cast<std::size_t>(to.shape(x).rank()) + 1;
    if (onnx_axis(attribute(node, "axis", -1), rank) != static_cast<std::int64_t>(rank) - 1) {
        throw OnnxRefusal{"normalised over more than the features"};
    }
    const OnnxTensor* bias = to.optional_constant(node, 2);
    const LayerNormOptions options{.epsilon = attribute_float(node, "epsilon", 1e-5F)};
    to.set_output(node, {to.add_layer(make_layer_norm(options), x, node, scale,
                                      {{"weight", &scale.floats},
                                       {"bias", bias == nullptr ? nullptr : &bias->floats}})});
}

/// Rows of a table by tokens, or the last position of a sequence.
void add_onnx_gather(OnnxBuilder& to, const onnx::Node& node) {
    const OnnxTensor* table = to.constant(node, 0);
    if (table != nullptr && table->shape.size() == 2 && attribute(node, "axis", 0) == 0) {
        const EmbeddingOptions options{.features = table->shape[1]};
        const Value rows = to.add_layer(make_embedding(options, table->shape[0]), to.input(node, 1),
                                        node, *table, {{"weight", &table->floats}});
        to.set_output(node, {rows});
        return;
    }
    const OnnxTensor* index = to.constant(node, 1);
    const OnnxValue& x = to.any_input(node);
    const Shape& shape = to.shape(x.value);
    const std::int64_t time = x.order == OnnxOrder::kBatchFirst ? 1 : 0;
    const bool last = index != nullptr && index->ints.size() == 1 && index->shape.empty() &&
                      shape.rank() == 2 && x.order != OnnxOrder::kTimeDirections &&
                      attribute(node, "axis", 0) == time &&
                      (index->ints[0] == -1 || index->ints[0] == shape[0] - 1);
    if (!last) {
        throw OnnxRefusal{"neither an embedding nor the last position of a sequence"};
    }
    to.set_output(node, {to.net().last_position(x.value)});
}

void add_onnx_lstm(OnnxBuilder& to, const onnx::Node& node) {
    const OnnxValue& x = to.any_input(node);
    const OnnxTensor& input = to.weight(node, 1);
    const OnnxTensor& hidden_weight = to.weight(node, 2);
    const OnnxTensor* bias = to.optional_constant(node, 3);
    const std::int64_t hidden = input.shape.size() == 3 ? input.shape[1] / 4 : 0;
    const std::string direction = attribute_text(node, "direction");
    refuse_variants(to, node);
    if (x.order != OnnxOrder::kTimeFirst || attribute(node, "layout", 0) != 0) {
        throw OnnxRefusal{"positions must come before the batch, by a Transpose"};
    }
    if ((!direction.empty() && direction != "forward") || input.shape.size() != 3 ||
        input.shape[0] != 1) {
        throw OnnxRefusal{"another direction than forward"};
    }
    const bool fits = hidden > 0 && input.shape[1] == 4 * hidden && input.shape[2] > 0 &&
                      attribute(node, "hidden_size", hidden) == hidden &&
                      hidden_weight.shape == Extents{1, 4 * hidden, hidden} &&
                      (bias == nullptr || bias->shape == Extents{1, 8 * hidden});
    if (!fits) {
        throw OnnxRefusal{"weights whose shapes do not fit each other"};
    }
    std::vector<float> biases(static_cast<std::size_t>(4 * hidden), 0.0F);
    if (bias != nullptr) {
        const OnnxTensor rows{.shape = {1, 8 * hidden, 1}, .floats = bias->floats};
        const std::vector<float> first = own_gates(rows, 0, hidden);
        const std::vector<float> second = own_gates(rows, 4 * hidden, hidden);
        std::ranges::transform(first, second, biases.begin(), std::plus<>());
    }
    const std::vector<float> by_input = own_gates(input, 0, hidden);
    const std::vector<float> by_hidden = own_gates(hidden_weight, 0, hidden);
    const Value output = to.add_layer(
        make_lstm({.hidden = hidden}), x.value, node, input,
        {{"weight_input", &by_input}, {"weight_hidden", &by_hidden}, {"bias", &biases}});
    to.set_output(node, {output, OnnxOrder::kTimeDirections});
}

}  // namespace cohort
