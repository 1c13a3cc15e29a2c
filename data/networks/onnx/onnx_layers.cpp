// What becomes of each kind of ONNX node (https://onnx.ai/onnx/operators).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "cohort/core/error.hpp"
#include "data/networks/onnx/onnx_builder.hpp"

namespace cohort {
namespace {

using Extents = std::vector<std::int64_t>;

const std::vector<float>* numbers(const OnnxTensor* tensor) {
    return tensor == nullptr ? nullptr : &tensor->floats;
}

void add_batch_norm(OnnxBuilder& to, const onnx::Node& node) {
    const OnnxTensor& scale = to.weight(node, 1);
    require_weights_of_norm(to, node);
    const BatchNormOptions options{.epsilon = attribute_float(node, "epsilon", 1e-5F)};
    to.set_output(node, {to.add_layer(make_batch_norm(options), to.input(node), node, scale,
                                      {{"weight", &scale.floats},
                                       {"bias", &to.weight(node, 2).floats},
                                       {"running_mean", &to.weight(node, 3).floats},
                                       {"running_var", &to.weight(node, 4).floats}})});
}

/// The bias that the next node adds to a product.
const OnnxTensor* following_bias(OnnxBuilder& to, const onnx::Node& product, std::int64_t features,
                                 const onnx::Node*& sum) {
    sum = to.only_reader(product, "Add");
    for (const int side : {0, 1}) {
        const OnnxTensor* bias = sum == nullptr ? nullptr : to.constant(*sum, side);
        if (bias != nullptr && bias->shape == Extents{features} && !bias->whole()) {
            return bias;
        }
    }
    sum = nullptr;
    return nullptr;
}

/// y = x W + b, W [in, out].
void add_linear(OnnxBuilder& to, const onnx::Node& node, const OnnxTensor& weight,
                const OnnxTensor* bias, const onnx::Node& last) {
    const Value x = to.input(node);
    const Shape& input = to.shape(x);
    if (weight.shape.size() != 2 || input.rank() > 2 ||
        weight.shape[0] != input[input.rank() - 1]) {
        throw OnnxRefusal{fmt::format("a product of {} and [{}]", to_string(input),
                                      fmt::join(weight.shape, ","))};
    }
    if (bias == nullptr) {
        if (const auto tied = to.add_tied(x, node, weight)) {
            to.set_output(last, {*tied});
            return;
        }
    }
    const OnnxTensor transposed = onnx_transposed(weight, {1, 0});
    const LinearOptions options{.features = weight.shape[1], .bias = bias != nullptr};
    to.set_output(last, {to.add_layer(make_linear(options), x, node, weight,
                                      {{"weight", &transposed.floats}, {"bias", numbers(bias)}})});
}

void add_gemm(OnnxBuilder& to, const onnx::Node& node) {
    if (attribute(node, "transA", 0) != 0 || attribute_float(node, "alpha", 1) != 1 ||
        attribute_float(node, "beta", 1) != 1) {
        throw OnnxRefusal{"a product with a factor, or of a transposed input"};
    }
    const OnnxTensor& given = to.weight(node, 1);
    const OnnxTensor weight =
        attribute(node, "transB", 0) != 0 ? onnx_transposed(given, {1, 0}) : given;
    const std::int64_t outputs = weight.shape.size() == 2 ? weight.shape[1] : 0;
    const std::optional<OnnxTensor> bias = onnx_bias(to, node, 2, outputs);
    add_linear(to, node, weight, bias ? &*bias : nullptr, node);
}

void add_product(OnnxBuilder& to, const onnx::Node& node) {
    const OnnxTensor& weight = to.weight(node, 1);
    const onnx::Node* sum = nullptr;
    const OnnxTensor* bias =
        weight.shape.size() == 2 ? following_bias(to, node, weight.shape[1], sum) : nullptr;
    std::optional<OnnxTensor> zeros;
    if (sum != nullptr) {
        to.absorb(*sum);
    } else if (weight.shape.size() == 2) {
        zeros = onnx_bias(to, node, 2, weight.shape[1]);
        bias = zeros ? &*zeros : nullptr;
    }
    add_linear(to, node, weight, bias, sum != nullptr ? *sum : node);
}

/// A table of positions that is added to a sequence [T,F]; null: none is.
const OnnxTensor* position_table(const OnnxBuilder& to, const onnx::Node& node,
                                 const Shape& shape) {
    for (const int side : {0, 1}) {
        const OnnxTensor* table = to.constant(node, side);
        if (table != nullptr && !table->whole() && shape.rank() == 2 &&
            table->elements() == shape.elements() && table->shape.size() >= 2 &&
            table->shape[table->shape.size() - 1] == shape[1]) {
            return table;
        }
    }
    return nullptr;
}

void add_positions(OnnxBuilder& to, const onnx::Node& node, Value x, const OnnxTensor& table,
                   float scale) {
    to.set_output(node, {to.add_layer(make_position({.learned = true, .scale = scale}), x, node,
                                      table, {{"weight", &table.floats}})});
}

/// Of a sequence and a number, before positions are added.
void add_scale(OnnxBuilder& to, const onnx::Node& node) {
    const onnx::Node* sum = to.only_reader(node, "Add");
    for (const int side : {0, 1}) {
        const OnnxTensor* factor = to.constant(node, side);
        if (factor == nullptr || factor->floats.size() != 1 || sum == nullptr) {
            continue;
        }
        const Value x = to.input(node, 1 - side);
        if (const OnnxTensor* table = position_table(to, *sum, to.shape(x))) {
            to.absorb(*sum);
            add_positions(to, *sum, x, *table, factor->floats[0]);
            return;
        }
    }
    throw OnnxRefusal{
        "no layer does this, but for a sequence by a number before positions are added"};
}

void add_sum(OnnxBuilder& to, const onnx::Node& node) {
    const int value = to.constant(node, 0) == nullptr ? 0 : 1;
    const Value x = to.input(node, value);
    if (const OnnxTensor* table = position_table(to, node, to.shape(x))) {
        add_positions(to, node, x, *table, 1);
        return;
    }
    const Value a = to.input(node, 0);
    const Value b = to.input(node, 1);
    to.set_output(node, {to.net().add(a, b)});
}

void add_concat(OnnxBuilder& to, const onnx::Node& node) {
    std::vector<Value> parts;
    for (int i = 0; i < node.input_size(); ++i) {
        parts.push_back(to.input(node, i));
    }
    const int rank = to.shape(parts.front()).rank();
    const std::int64_t axis =
        onnx_axis(attribute(node, "axis", 1), static_cast<std::size_t>(rank) + 1);
    if (axis != (rank == 2 ? 2 : 1)) {
        throw OnnxRefusal{"joined along another axis than channels or features"};
    }
    to.set_output(node, {to.net().concat(parts)});
}

/// A change of shape that leaves the order of numbers: to one axis, or none at all.
void reshape_to(OnnxBuilder& to, const onnx::Node& node, const Extents& sample) {
    const Value x = to.input(node);
    const Shape& shape = to.shape(x);
    const bool one = sample.size() == 1 && (sample[0] == -1 || sample[0] == shape.elements());
    if (std::ranges::equal(shape.extents(), sample)) {
        to.set_output(node, {x});
    } else if (one) {
        to.set_output(node, {shape.rank() == 1 ? x : to.net().flatten(x)});
    } else {
        throw OnnxRefusal{fmt::format("a change of shape from {} to [{}]; only to one axis",
                                      to_string(shape), fmt::join(sample, ","))};
    }
}

void add_flatten(OnnxBuilder& to, const onnx::Node& node) {
    if (attribute(node, "axis", 1) != 1) {
        throw OnnxRefusal{"another axis than 1"};
    }
    reshape_to(to, node, {-1});
}

void add_reshape(OnnxBuilder& to, const onnx::Node& node) {
    const OnnxTensor* given = to.constant(node, 1);
    const Shape& shape = to.shape(to.input(node));
    if (given == nullptr || given->ints.size() < 2) {
        throw OnnxRefusal{"a shape that is not known"};
    }
    Extents sample = given->ints;
    for (std::size_t axis = 1; axis < sample.size(); ++axis) {
        if (sample[axis] == 0 && attribute(node, "allowzero", 0) == 0 &&
            static_cast<int>(axis) <= shape.rank()) {
            sample[axis] = shape[static_cast<int>(axis) - 1];
        }
    }
    if (sample[0] != 0 && !to.is_batch(sample[0])) {
        throw OnnxRefusal{"the batch becomes another axis"};
    }
    sample.erase(sample.begin());
    reshape_to(to, node, sample);
}

/// Of height and width, both 1.
void add_squeeze(OnnxBuilder& to, const onnx::Node& node) {
    const OnnxTensor* given = to.constant(node, 1);
    Extents axes = given != nullptr ? given->ints : attribute_ints(node, "axes");
    const OnnxValue& x = to.any_input(node);
    const Shape& shape = to.shape(x.value);
    if (x.order == OnnxOrder::kTimeDirections && axes == Extents{1}) {
        to.set_output(node, {x.value, OnnxOrder::kTimeFirst});
        return;
    }
    for (std::int64_t& axis : axes) {
        axis = onnx_axis(axis, static_cast<std::size_t>(shape.rank()) + 1);
    }
    std::ranges::sort(axes);
    if (x.order != OnnxOrder::kBatchFirst || shape.rank() != 3 || axes != Extents{2, 3}) {
        throw OnnxRefusal{"other axes than height and width are left out"};
    }
    to.set_output(node, {to.net().flatten(x.value)});
}

void add_dropout(OnnxBuilder& to, const onnx::Node& node) {
    const OnnxTensor* ratio = to.constant(node, 1);
    const float probability = ratio != nullptr && !ratio->floats.empty()
                                  ? ratio->floats.front()
                                  : attribute_float(node, "ratio", 0.5F);
    const Value x = to.input(node);
    to.set_output(node, {probability > 0 ? to.net().dropout(x, probability) : x});
}

void add_identity(OnnxBuilder& to, const onnx::Node& node) {
    to.set_output(node, to.any_input(node));
}

template <ActivationKind kKind>
void add_activation(OnnxBuilder& to, const onnx::Node& node) {
    if (kKind == ActivationKind::kGelu && attribute_text(node, "approximate") == "tanh") {
        throw OnnxRefusal{"the approximation by tanh; approximate=\"none\" is trained"};
    }
    to.set_output(node, {to.net().append(make_activation(kKind), {to.input(node)})});
}

/// Of constant bounds: attributes up to operator set 10, inputs after it.
void add_clip(OnnxBuilder& to, const onnx::Node& node) {
    using Limits = std::numeric_limits<float>;
    const auto bound = [&](int index, const char* name, float missing) {
        const OnnxTensor* given = to.optional_constant(node, index);
        return given == nullptr ? attribute_float(node, name, missing) : given->floats.at(0);
    };
    const float least = bound(1, "min", Limits::lowest());
    const float most = bound(2, "max", Limits::max());
    if (least != 0 || (most != kRelu6Bound && most < Limits::max())) {
        throw OnnxRefusal{
            fmt::format("bounds {} and {}; 0 and 6 are trained (a ReLU6)", least, most)};
    }
    const Value x = to.input(node);
    to.set_output(node, {most == kRelu6Bound ? to.net().relu6(x) : to.net().relu(x)});
}

using Adder = void (*)(OnnxBuilder&, const onnx::Node&);
const std::map<std::string_view, Adder>& adders() {
    static const std::map<std::string_view, Adder> all{
        {"Conv", add_onnx_conv},
        {"BatchNormalization", add_batch_norm},
        {"Relu", add_activation<ActivationKind::kRelu>},
        {"Clip", add_clip},
        {"Gelu", add_activation<ActivationKind::kGelu>},
        {"Sigmoid", add_activation<ActivationKind::kSigmoid>},
        {"Tanh", add_activation<ActivationKind::kTanh>},
        {"MaxPool", add_onnx_max_pool},
        {"AveragePool", add_onnx_average_pool},
        {"GlobalAveragePool", add_onnx_global_pool},
        {"ReduceMean", add_onnx_reduce_mean},
        {"Gemm", add_gemm},
        {"MatMul", add_product},
        {"Add", add_sum},
        {"Mul", add_scale},
        {"Concat", add_concat},
        {"Flatten", add_flatten},
        {"Reshape", add_reshape},
        {"Squeeze", add_squeeze},
        {"Transpose", add_onnx_transpose},
        {"Dropout", add_dropout},
        {"Identity", add_identity},
        {"Cast", add_identity},
        {"LayerNormalization", add_onnx_layer_norm},
        {"Attention", add_onnx_attention_node},
        {"Gather", add_onnx_gather},
        {"LSTM", add_onnx_lstm},
    };
    return all;
}

}  // namespace

std::optional<OnnxTensor> onnx_bias(const OnnxBuilder& to, const onnx::Node& node, int index,
                                    std::int64_t outputs) {
    const OnnxTensor* found = to.optional_constant(node, index);
    const OnnxBias of_module = onnx_bias_parameter(node);
    if (found == nullptr) {
        return of_module == OnnxBias::kGiven
                   ? std::optional(OnnxTensor{
                         .shape = {outputs},
                         .floats = std::vector<float>(static_cast<std::size_t>(outputs), 0.0F)})
                   : std::nullopt;
    }
    const bool filled_in = found->origin.empty() || of_module == OnnxBias::kNone;
    const bool zero = std::ranges::all_of(found->floats, [](float value) { return value == 0; });
    return filled_in && zero ? std::nullopt : std::optional(*found);
}

void require_weights_of_norm(const OnnxBuilder& to, const onnx::Node& node) {
    const OnnxTensor& scale = to.weight(node, 1);
    const OnnxTensor* shift = to.optional_constant(node, 2);
    const auto all = [](const OnnxTensor& tensor, float wanted) {
        return std::ranges::all_of(tensor.floats, [=](float value) { return value == wanted; });
    };
    const bool computed =
        scale.origin.empty() || (!onnx_module(node).empty() && onnx_weight_parameter(node).empty());
    if (computed && all(scale, 1) && (shift == nullptr || all(*shift, 0))) {
        throw OnnxRefusal{
            "a norm without weight and bias; with affine=True, or elementwise_affine=True, it is "
            "trained"};
    }
}

bool knows_onnx_node(std::string_view op) {
    return adders().contains(op);
}

std::string_view onnx_hint(std::string_view op) {
    static const std::map<std::string_view, std::string_view> hints{
        {"Softmax",
         "the loss includes the softmax of the outputs; the network without its last layer. Within "
         "a network it is trained as part of an attention"},
        {"LogSoftmax",
         "the loss includes the softmax of the outputs; the network without its last layer"},
        {"Erf",
         "a GELU is one node from operator set 20 on: torch.onnx.export(..., opset_version=20)"},
        {"GRU", "recurrent layers are LSTMs"},
        {"RNN", "recurrent layers are LSTMs"},
        {"ConvTranspose", "no layer enlarges an image"},
        {"InstanceNormalization", "batch norm or layer norm in its place"},
        {"GroupNormalization", "batch norm or layer norm in its place"},
        {"LeakyRelu", "a ReLU, GELU, sigmoid or tanh in its place"},
        {"Elu", "a ReLU, GELU, sigmoid or tanh in its place"},
        {"HardSwish", "a ReLU, GELU, sigmoid or tanh in its place"},
    };
    const auto found = hints.find(op);
    return found == hints.end() ? "no layer does this" : found->second;
}

void add_onnx_layer(OnnxBuilder& to, const onnx::Node& node) {
    if (add_onnx_attention(to, node)) {
        return;
    }
    const auto adder = adders().find(node.op_type());
    if (adder == adders().end()) {
        throw OnnxRefusal{std::string(onnx_hint(node.op_type()))};
    }
    adder->second(to, node);
}

}  // namespace cohort
