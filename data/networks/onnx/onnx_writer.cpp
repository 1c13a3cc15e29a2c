#include "data/networks/onnx/onnx_writer.hpp"

#include <utility>

namespace cohort {
namespace {

// Attribute.type
constexpr int kReal = 1;
constexpr int kNumber = 2;
constexpr int kNumbers = 7;

void describe_value(onnx::ValueInfo& info, const std::string& name, int type, const Shape& sample) {
    info.set_name(name);
    onnx::TensorType& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape()->add_dim()->set_dim_param("batch");
    for (const std::int64_t extent : sample.extents()) {
        tensor.mutable_shape()->add_dim()->set_dim_value(extent);
    }
}

std::vector<std::int64_t> extents_of(const FlatRange& range) {
    const auto extents = range.shape.extents();
    return {extents.begin(), extents.end()};
}

}  // namespace

OnnxNode::OnnxNode(onnx::Node& node, const char* op, const std::string& output) : node_(node) {
    node.set_op_type(op);
    node.set_name(output);
    node.add_output(output);
}

OnnxNode& OnnxNode::input(const std::string& name) {
    node_.add_input(name);
    return *this;
}

OnnxNode& OnnxNode::number(const char* name, std::int64_t value) {
    add(name, kNumber).set_i(value);
    return *this;
}

OnnxNode& OnnxNode::real(const char* name, double value) {
    add(name, kReal).set_f(static_cast<float>(value));
    return *this;
}

OnnxNode& OnnxNode::numbers(const char* name, const std::vector<std::int64_t>& values) {
    add(name, kNumbers).mutable_ints()->Assign(values.begin(), values.end());
    return *this;
}

onnx::Attribute& OnnxNode::add(const char* name, int type) {
    onnx::Attribute& attribute = *node_.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
}

OnnxWriter::OnnxWriter(const ModelFile& file) : file_(file) {
    const Graph& network = file.graph;
    graph_.set_name(network.name());
    describe_value(*graph_.add_input(), "input", network.reads_tokens() ? kOnnxInt64 : kOnnxFloat,
                   network.input_shape());
    names_[0] = "input";
    for (const Graph::Node& layer : network.layers()) {
        names_[layer.output] =
            layer.output == network.logits().index ? "output" : within(layer, "output");
    }
}

onnx::Graph OnnxWriter::finish() {
    describe_value(*graph_.add_output(), "output", kOnnxFloat,
                   file_.graph.shape(file_.graph.logits()));
    return std::exchange(graph_, {});
}

std::string OnnxWriter::add_floats(const std::string& name, const std::vector<std::int64_t>& shape,
                                   std::span<const float> values) {
    onnx::Tensor& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(kOnnxFloat);
    tensor.mutable_dims()->Assign(shape.begin(), shape.end());
    tensor.set_raw_data(values.data(), values.size_bytes());
    return name;
}

std::string OnnxWriter::add_ints(const std::string& name, const std::vector<std::int64_t>& values,
                                 bool scalar) {
    onnx::Tensor& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(kOnnxInt64);
    if (!scalar) {
        tensor.add_dims(std::ssize(values));
    }
    tensor.set_raw_data(values.data(), values.size() * sizeof(std::int64_t));
    return name;
}

std::string OnnxWriter::add_parameter(const Graph::Node& layer, std::size_t index) {
    const FlatRange& range = parameter(layer, index);
    return layer.tied && index == 0
               ? range.name
               : add_floats(range.name, extents_of(range), values(range, false));
}

std::string OnnxWriter::add_state(const Graph::Node& layer, std::size_t index) {
    const FlatRange& range =
        file_.graph.state().ranges()[static_cast<std::size_t>(layer.state_ranges.at(index))];
    return add_floats(range.name, extents_of(range), values(range, true));
}

const FlatRange& OnnxWriter::parameter(const Graph::Node& layer, std::size_t index) const {
    return file_.graph.parameters()
        .ranges()[static_cast<std::size_t>(layer.parameter_ranges.at(index))];
}

std::span<const float> OnnxWriter::values(const FlatRange& range, bool state) const {
    return std::span(state ? file_.state : file_.parameters)
        .subspan(static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.size));
}

}  // namespace cohort
