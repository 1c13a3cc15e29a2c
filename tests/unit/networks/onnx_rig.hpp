#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/rng.hpp"
#include "cohort/model/replica.hpp"
#include "cohort/networks/network.hpp"
#include "data/networks/model_file.hpp"
#include "data/networks/onnx/onnx_export.hpp"
#include "data/networks/onnx/onnx_file.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort::test {

/// With weights and running statistics that are all different.
inline ModelFile trained(Graph graph) {
    const auto extents = graph.input_shape().extents();
    ModelFile model{.graph = std::move(graph), .sample_shape = {extents.begin(), extents.end()}};
    model.classes = model.graph.classes();
    model.tokens = model.graph.reads_tokens();
    model.parameters.resize(static_cast<std::size_t>(model.graph.parameters().total()));
    model.state.resize(static_cast<std::size_t>(model.graph.state().total()));
    model.graph.initialise(5, model.parameters, model.state);
    Rng rng(6, RngPurpose::kTest);
    for (const FlatRange& range : model.graph.parameters().ranges()) {
        std::for_each_n(model.parameters.begin() + range.offset, range.size,
                        [&](float& value) { value += 0.05F * rng.next_normal(); });
    }
    for (const FlatRange& range : model.graph.state().ranges()) {
        std::for_each_n(model.state.begin() + range.offset, range.size,
                        [&](float& value) { value += 0.2F * rng.next_uniform(); });
    }
    return model;
}

/// Outputs for samples that depend on the shape alone.
inline std::vector<float> outputs(const Graph& graph, const ModelFile& model) {
    constexpr std::int64_t kSamples = 3;
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Replica replica(graph, *device, {.deterministic = true});
    std::ranges::copy(model.parameters, replica.parameters().begin());
    std::ranges::copy(model.state, replica.state().begin());
    Rng rng(7, RngPurpose::kTest);
    std::vector<float> samples;
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0; i < kSamples * graph.input_shape().elements(); ++i) {
        samples.push_back(rng.next_normal());
        tokens.push_back(static_cast<std::int32_t>(rng.next_below(
            static_cast<std::uint32_t>(std::max<std::int64_t>(graph.vocabulary(), 1)))));
    }
    std::vector<float> found(static_cast<std::size_t>(kSamples * graph.outputs()));
    replica.infer({.samples = samples.data(), .size = kSamples, .tokens = tokens.data()}, found);
    return found;
}

inline ModelFile read(const std::string& path) {
    Hdf5Thread hdf5;
    return read_trained(path, hdf5);
}

inline onnx::Model parsed(const std::string& path) {
    onnx::Model model;
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(model.ParseFromIstream(&file));
    return model;
}

inline onnx::Node& node_of(onnx::Model& model, std::string_view op) {
    for (onnx::Node& node : *model.mutable_graph()->mutable_node()) {
        if (node.op_type() == op) {
            return node;
        }
    }
    throw std::out_of_range(std::string(op));
}

inline void set_ints(onnx::Node& node, std::string_view name, std::vector<std::int64_t> values) {
    for (onnx::Attribute& attribute : *node.mutable_attribute()) {
        if (attribute.name() == name) {
            attribute.mutable_ints()->Assign(values.begin(), values.end());
        }
    }
}
inline void add_number(onnx::Node& node, const char* name, std::int64_t value) {
    onnx::Attribute& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_i(value);
}
inline void add_text(onnx::Node& node, const char* name, const char* value) {
    onnx::Attribute& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_s(value);
}

/// Writes and reads ONNX files.
class OnnxFiles : public testing::Test {
protected:
    std::string written(const ModelFile& model) {
        std::string path = folder.file("net.onnx");
        write_onnx({path, true, FolderRule::kAny}, model);
        return path;
    }

    void expect_same_after_writing(Graph graph) {
        const ModelFile model = trained(std::move(graph));
        const ModelFile again = read(written(model));
        std::vector<std::string> names;
        std::vector<std::string> names_again;
        for (const FlatRange& range : model.graph.parameters().ranges()) {
            names.push_back(range.name + to_string(range.shape));
        }
        for (const FlatRange& range : again.graph.parameters().ranges()) {
            names_again.push_back(range.name + to_string(range.shape));
        }
        EXPECT_THAT(names_again, testing::UnorderedElementsAreArray(names));
        EXPECT_EQ(outputs(again.graph, again), outputs(model.graph, model));
    }

    TempFolder folder;
};

}  // namespace cohort::test
