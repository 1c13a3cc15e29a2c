#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "cohort/model/graph.hpp"
#include "data/networks/model_file.hpp"
#include "data/networks/onnx/onnx_file.hpp"

namespace cohort {

/// A node of an ONNX graph under construction: inputs in order, and attributes.
class OnnxNode {
public:
    OnnxNode(onnx::Node& node, const char* op, const std::string& output);
    OnnxNode& input(const std::string& name);
    OnnxNode& number(const char* name, std::int64_t value);
    OnnxNode& real(const char* name, double value);
    OnnxNode& numbers(const char* name, const std::vector<std::int64_t>& values);

private:
    onnx::Attribute& add(const char* name, int type);

    onnx::Node& node_;
};

/// The nodes and weights of a trained network, under construction.
class OnnxWriter {
public:
    /// @param file  outlives the writer
    explicit OnnxWriter(const ModelFile& file);
    /// With the output. Ends the writer.
    [[nodiscard]] onnx::Graph finish();

    [[nodiscard]] onnx::Node& new_node() { return *graph_.add_node(); }
    OnnxNode node(const char* op, const std::string& output) { return {new_node(), op, output}; }
    /// Names of a layer's inputs and output.
    [[nodiscard]] const std::string& input(const Graph::Node& layer, std::size_t index = 0) const {
        return names_.at(layer.inputs.at(index));
    }
    [[nodiscard]] const std::string& output(const Graph::Node& layer) const {
        return names_.at(layer.output);
    }
    /// Of the layer's first input.
    [[nodiscard]] const Shape& shape(const Graph::Node& layer) const {
        return file_.graph.shape(Value{layer.inputs.front()});
    }
    /// Name of a value within a layer.
    [[nodiscard]] static std::string within(const Graph::Node& layer, const char* name) {
        return layer.name + "." + name;
    }

    /// Add a constant and return its name.
    std::string add_floats(const std::string& name, const std::vector<std::int64_t>& shape,
                           std::span<const float> values);
    std::string add_ints(const std::string& name, const std::vector<std::int64_t>& values,
                         bool scalar = false);
    /// The same of a layer's tensors, under their own names; a tied one is there already.
    std::string add_parameter(const Graph::Node& layer, std::size_t index);
    std::string add_state(const Graph::Node& layer, std::size_t index);
    [[nodiscard]] const FlatRange& parameter(const Graph::Node& layer, std::size_t index) const;
    [[nodiscard]] std::span<const float> values(const FlatRange& range, bool state) const;

private:
    const ModelFile& file_;
    onnx::Graph graph_;
    std::map<int, std::string> names_;  ///< of values
};

}  // namespace cohort
