// A trained network as ONNX nodes (https://onnx.ai/onnx/operators), layer by layer.
#include "data/networks/onnx/onnx_export.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>

#include "cohort/core/error.hpp"
#include "cohort/core/version.hpp"
#include "data/file/file_io.hpp"
#include "data/networks/onnx/onnx_import.hpp"
#include "data/networks/onnx/onnx_writer.hpp"

namespace cohort {
namespace {

constexpr int kIrVersion = 9;
constexpr int kOperatorSet = 20;
using Shape64 = std::vector<std::int64_t>;

double number(const LayerAttributes& a, const char* name) {
    return a.at(name).front();
}
std::int64_t whole(const LayerAttributes& a, const char* name) {
    return static_cast<std::int64_t>(number(a, name));
}
/// One number for each of so many axes or sides.
Shape64 spread(const LayerAttributes& a, const char* name, std::size_t count) {
    const std::vector<double>& values = a.at(name);
    Shape64 all(values.begin(), values.end());
    all.resize(count, all.front());
    return all;
}

void add_conv(OnnxWriter& to, const Graph::Node& layer, const LayerAttributes& a) {
    OnnxNode made = to.node("Conv", to.output(layer));
    made.input(to.input(layer)).input(to.add_parameter(layer, 0));
    if (number(a, "bias") != 0) {
        made.input(to.add_parameter(layer, 1));
    }
    made.numbers("kernel_shape", spread(a, "kernel", 2))
        .numbers("strides", spread(a, "stride", 2))
        .numbers("pads", spread(a, "padding", 4))
        .numbers("dilations", spread(a, "dilation", 2))
        .number("group", whole(a, "groups"));
}

void add_linear(OnnxWriter& to, const Graph::Node& layer, const LayerAttributes& a) {
    const std::string weight = to.add_parameter(layer, 0);
    const std::string bias = number(a, "bias") != 0 ? to.add_parameter(layer, 1) : "";
    if (to.shape(layer).rank() == 1) {
        OnnxNode made = to.node("Gemm", to.output(layer));
        made.input(to.input(layer)).input(weight).number("transB", 1);
        if (!bias.empty()) {
            made.input(bias);
        }
        return;
    }
    to.node("Transpose", OnnxWriter::within(layer, "transposed"))
        .input(weight)
        .numbers("perm", {1, 0});
    const std::string product =
        bias.empty() ? to.output(layer) : OnnxWriter::within(layer, "product");
    to.node("MatMul", product)
        .input(to.input(layer))
        .input(OnnxWriter::within(layer, "transposed"));
    if (!bias.empty()) {
        to.node("Add", to.output(layer)).input(product).input(bias);
    }
}

/// Gates in ONNX's order: input, output, forget, cell.
std::vector<float> ordered_gates(const OnnxWriter& to, const FlatRange& range) {
    const std::span<const float> from = to.values(range, false);
    const auto block = from.size() / 4;
    std::vector<float> ordered;
    for (const std::size_t gate : {0, 3, 1, 2}) {
        const auto part = from.subspan(gate * block, block);
        ordered.insert(ordered.end(), part.begin(), part.end());
    }
    return ordered;
}

void add_lstm(OnnxWriter& to, const Graph::Node& layer, const LayerAttributes& a) {
    const std::int64_t hidden = whole(a, "hidden");
    const std::int64_t features = to.shape(layer)[1];
    std::vector<float> biases = ordered_gates(to, to.parameter(layer, 2));
    biases.resize(2 * biases.size(), 0.0F);
    const std::string by_input =
        to.add_floats(OnnxWriter::within(layer, "weight_input"), {1, 4 * hidden, features},
                      ordered_gates(to, to.parameter(layer, 0)));
    const std::string by_hidden =
        to.add_floats(OnnxWriter::within(layer, "weight_hidden"), {1, 4 * hidden, hidden},
                      ordered_gates(to, to.parameter(layer, 1)));
    const std::string bias =
        to.add_floats(OnnxWriter::within(layer, "bias"), {1, 8 * hidden}, biases);
    to.node("Transpose", OnnxWriter::within(layer, "time_first"))
        .input(to.input(layer))
        .numbers("perm", {1, 0, 2});
    to.node("LSTM", OnnxWriter::within(layer, "directions"))
        .input(OnnxWriter::within(layer, "time_first"))
        .input(by_input)
        .input(by_hidden)
        .input(bias)
        .number("hidden_size", hidden);
    to.node("Squeeze", OnnxWriter::within(layer, "hidden"))
        .input(OnnxWriter::within(layer, "directions"))
        .input(to.add_ints(OnnxWriter::within(layer, "axis"), {1}));
    to.node("Transpose", to.output(layer))
        .input(OnnxWriter::within(layer, "hidden"))
        .numbers("perm", {1, 0, 2});
}

void add_last_position(OnnxWriter& to, const Graph::Node& layer, const LayerAttributes& /*a*/) {
    to.node("Gather", to.output(layer))
        .input(to.input(layer))
        .input(to.add_ints(OnnxWriter::within(layer, "position"), {to.shape(layer)[0] - 1}, true))
        .number("axis", 1);
}

void add_embedding(OnnxWriter& to, const Graph::Node& layer, const LayerAttributes& /*a*/) {
    to.node("Gather", to.output(layer)).input(to.add_parameter(layer, 0)).input(to.input(layer));
}

void add_position(OnnxWriter& to, const Graph::Node& layer, const LayerAttributes& a) {
    const std::int64_t positions = to.shape(layer)[0];
    const std::int64_t features = to.shape(layer)[1];
    std::string table;
    if (number(a, "learned") != 0) {
        table = to.add_parameter(layer, 0);
    } else {  // Vaswani et al. 2017, section 3.5
        std::vector<float> waves;
        for (std::int64_t t = 0; t < positions; ++t) {
            for (std::int64_t f = 0; f < features; ++f) {
                const double even = static_cast<double>(f - f % 2);
                const double angle = static_cast<double>(t) /
                                     std::pow(10000.0, even / static_cast<double>(features));
                waves.push_back(static_cast<float>(f % 2 == 0 ? std::sin(angle) : std::cos(angle)));
            }
        }
        table = to.add_floats(OnnxWriter::within(layer, "waves"), {positions, features}, waves);
    }
    const auto scale = static_cast<float>(number(a, "scale"));
    std::string scaled = to.input(layer);
    if (scale != 1) {
        to.node("Mul", OnnxWriter::within(layer, "scaled"))
            .input(scaled)
            .input(to.add_floats(OnnxWriter::within(layer, "scale"), {}, std::span(&scale, 1)));
        scaled = OnnxWriter::within(layer, "scaled");
    }
    to.node("Add", to.output(layer)).input(scaled).input(table);
}

void add_layer_norm(OnnxWriter& to, const Graph::Node& layer, const LayerAttributes& a) {
    to.node("LayerNormalization", to.output(layer))
        .input(to.input(layer))
        .input(to.add_parameter(layer, 0))
        .input(to.add_parameter(layer, 1))
        .number("axis", -1)
        .real("epsilon", number(a, "epsilon"));
}

/// Q, K and V of each head; softmax(Q K^T / sqrt(F / heads) + mask) V.
void add_attention(OnnxWriter& to, const Graph::Node& layer, const LayerAttributes& a) {
    const std::int64_t positions = to.shape(layer)[0];
    const std::int64_t features = to.shape(layer)[1] / 3;
    const std::int64_t heads = whole(a, "heads");
    const std::string by_head = to.add_ints(OnnxWriter::within(layer, "by_head"),
                                            {0, positions, 3 * heads, features / heads});
    to.node("Reshape", OnnxWriter::within(layer, "split")).input(to.input(layer)).input(by_head);
    to.node("Transpose", OnnxWriter::within(layer, "heads"))
        .input(OnnxWriter::within(layer, "split"))
        .numbers("perm", {0, 2, 1, 3});
    onnx::Node& parts = to.new_node();
    OnnxNode(parts, "Split", OnnxWriter::within(layer, "queries"))
        .input(OnnxWriter::within(layer, "heads"))
        .number("axis", 1)
        .number("num_outputs", 3);
    parts.add_output(OnnxWriter::within(layer, "keys"));
    parts.add_output(OnnxWriter::within(layer, "values"));
    to.node("Transpose", OnnxWriter::within(layer, "keys_transposed"))
        .input(OnnxWriter::within(layer, "keys"))
        .numbers("perm", {0, 1, 3, 2});
    to.node("MatMul", OnnxWriter::within(layer, "products"))
        .input(OnnxWriter::within(layer, "queries"))
        .input(OnnxWriter::within(layer, "keys_transposed"));
    const float scale = 1.0F / std::sqrt(static_cast<float>(features) / static_cast<float>(heads));
    to.node("Mul", OnnxWriter::within(layer, "scores"))
        .input(OnnxWriter::within(layer, "products"))
        .input(to.add_floats(OnnxWriter::within(layer, "scale"), {}, std::span(&scale, 1)));
    std::string scores = OnnxWriter::within(layer, "scores");
    if (number(a, "causal") != 0) {
        std::vector<float> mask;
        for (std::int64_t query = 0; query < positions; ++query) {
            for (std::int64_t key = 0; key < positions; ++key) {
                mask.push_back(key <= query ? 0.0F : -1e30F);
            }
        }
        to.node("Add", OnnxWriter::within(layer, "masked"))
            .input(scores)
            .input(to.add_floats(OnnxWriter::within(layer, "mask"), {positions, positions}, mask));
        scores = OnnxWriter::within(layer, "masked");
    }
    to.node("Softmax", OnnxWriter::within(layer, "shares")).input(scores).number("axis", -1);
    to.node("MatMul", OnnxWriter::within(layer, "means"))
        .input(OnnxWriter::within(layer, "shares"))
        .input(OnnxWriter::within(layer, "values"));
    to.node("Transpose", OnnxWriter::within(layer, "by_position"))
        .input(OnnxWriter::within(layer, "means"))
        .numbers("perm", {0, 2, 1, 3});
    to.node("Reshape", to.output(layer))
        .input(OnnxWriter::within(layer, "by_position"))
        .input(to.add_ints(OnnxWriter::within(layer, "joined"), {0, positions, features}));
}

void add_relu6(OnnxWriter& to, const Graph::Node& layer, const LayerAttributes& /*a*/) {
    constexpr float kLeast = 0;
    to.node("Clip", to.output(layer))
        .input(to.input(layer))
        .input(to.add_floats(OnnxWriter::within(layer, "min"), {}, std::span(&kLeast, 1)))
        .input(to.add_floats(OnnxWriter::within(layer, "max"), {}, std::span(&kRelu6Bound, 1)));
}

void add_batch_norm(OnnxWriter& to, const Graph::Node& layer, const LayerAttributes& a) {
    to.node("BatchNormalization", to.output(layer))
        .input(to.input(layer))
        .input(to.add_parameter(layer, 0))
        .input(to.add_parameter(layer, 1))
        .input(to.add_state(layer, 0))
        .input(to.add_state(layer, 1))
        .real("epsilon", number(a, "epsilon"));
}

void add_pool(OnnxWriter& to, const Graph::Node& layer, const LayerAttributes& a) {
    const bool max = layer.layer->kind() == "max_pool";
    OnnxNode made = to.node(max ? "MaxPool" : "AveragePool", to.output(layer));
    made.input(to.input(layer))
        .numbers("kernel_shape", spread(a, "kernel", 2))
        .numbers("strides", spread(a, "stride", 2))
        .numbers("pads", spread(a, "padding", 4));
    if (a.contains("dilation")) {
        made.numbers("dilations", spread(a, "dilation", 2));
    }
    if (a.contains("count_padding")) {
        made.number("count_include_pad", 1);
    }
}

void add_concat(OnnxWriter& to, const Graph::Node& layer, const LayerAttributes& /*a*/) {
    OnnxNode made = to.node("Concat", to.output(layer));
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
        made.input(to.input(layer, i));
    }
    made.number("axis", to.shape(layer).rank() == 2 ? 2 : 1);
}

void add_dropout(OnnxWriter& to, const Graph::Node& layer, const LayerAttributes& a) {
    const auto ratio = static_cast<float>(number(a, "probability"));
    to.node("Dropout", to.output(layer))
        .input(to.input(layer))
        .input(to.add_floats(OnnxWriter::within(layer, "ratio"), {}, std::span(&ratio, 1)));
}

using LayerWriter = void (*)(OnnxWriter&, const Graph::Node&, const LayerAttributes&);

void add_layer(OnnxWriter& to, const Graph::Node& layer) {
    static const std::map<std::string_view, LayerWriter> adders{
        {"conv", add_conv},
        {"linear", add_linear},
        {"lstm", add_lstm},
        {"last_position", add_last_position},
        {"embedding", add_embedding},
        {"position", add_position},
        {"layer_norm", add_layer_norm},
        {"attention", add_attention},
        {"batch_norm", add_batch_norm},
        {"relu6", add_relu6},
        {"max_pool", add_pool},
        {"average_pool", add_pool},
        {"concat", add_concat},
        {"dropout", add_dropout},
    };
    static const std::map<std::string_view, const char*> plain{
        {"relu", "Relu"},
        {"gelu", "Gelu"},
        {"sigmoid", "Sigmoid"},
        {"tanh", "Tanh"},
        {"add", "Add"},
        {"flatten", "Flatten"},
        {"global_average_pool", "GlobalAveragePool"}};
    const std::string_view kind = layer.layer->kind();
    if (const auto adder = adders.find(kind); adder != adders.end()) {
        adder->second(to, layer, layer.layer->attributes());
        return;
    }
    OnnxNode made = to.node(plain.at(kind), to.output(layer));
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
        made.input(to.input(layer, i));
    }
}

onnx::Graph onnx_graph_of(const ModelFile& model) {
    OnnxWriter writer(model);
    for (const Graph::Node& layer : model.graph.layers()) {
        add_layer(writer, layer);
    }
    return writer.finish();
}

void add_entry(onnx::Model& model, const char* key, const std::vector<float>& values) {
    onnx::Entry& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(fmt::format("{}", fmt::join(values, " ")));
}

}  // namespace

void write_onnx(const OutputFile& file, const ModelFile& model) {
    onnx::Model written;
    written.set_ir_version(kIrVersion);
    written.set_producer_name("cohort");
    written.set_producer_version(std::string(version()));
    written.add_opset_import()->set_version(kOperatorSet);
    *written.mutable_graph() = onnx_graph_of(model);
    if (!model.mean.empty()) {  // of samples before they are the input
        add_entry(written, kOnnxMean, model.mean);
        add_entry(written, kOnnxStd, model.std);
    }
    if (model.targets() > 0) {
        add_entry(written, kOnnxTargetMean, model.target_mean);
        add_entry(written, kOnnxTargetStd, model.target_std);
    }
    std::string bytes;
    if (!written.SerializeToString(&bytes)) {
        fail<FileError>({.where = file.path, .what = "the network is too large for an ONNX file"});
    }
    AtomicFile out(file);
    out.reserve(bytes.size());
    out.write_at(0, std::as_bytes(std::span(bytes)));
    out.commit();
}

}  // namespace cohort
