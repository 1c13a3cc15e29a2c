// What PyTorch's exporter notes beside the nodes: whose weights they are, and what was optimized.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fstream>

#include "cohort/core/error.hpp"
#include "data/networks/onnx/onnx_import.hpp"
#include "unit/networks/onnx_rig.hpp"

namespace cohort::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

void add_note(onnx::Node& node, const std::string& key, const std::string& value) {
    onnx::Entry& entry = *node.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
}

/// As PyTorch 2.15 writes them. @param file  of torch.nn.modules  @param arguments  parameters
void note_module(onnx::Node& node, const std::string& module, const std::string& file,
                 const std::string& arguments) {
    add_note(node, "pkg.torch.onnx.name_scopes", fmt::format("['', '{}', 'operator_1']", module));
    add_note(node, "pkg.torch.onnx.class_hierarchy",
             fmt::format("['__main__.Net', 'torch.nn.modules.{}', 'aten.operator']", file));
    add_note(node, "pkg.torch.onnx.fx_node",
             fmt::format("%x : [num_users=1] = call_function[target=torch.ops.aten.operator]"
                         "(args = (%y, {}, 1e-05), kwargs = {{}})",
                         arguments));
}

void rewrite(const std::string& path, const onnx::Model& model) {
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
}

std::vector<std::string> parameters(const std::string& path) {
    std::vector<std::string> names;
    const Graph graph = read_onnx(path).graph;
    for (const FlatRange& range : graph.parameters().ranges()) {
        names.push_back(range.name + to_string(range.shape));
    }
    return names;
}

class OnnxNotes : public OnnxFiles {
protected:
    /// Two norms, which an optimizer has given one pair of tensors.
    onnx::Model twins(std::string& path) {
        GraphBuilder net("net", Shape{5, 4});
        const Value x = net.append(make_layer_norm({}), {net.input()}, "a");
        const Value y = net.append(make_layer_norm({}), {x}, "b");
        path = written(trained(net.finish(net.linear(net.flatten(y), {.features = 2}))));
        onnx::Model model = parsed(path);
        for (onnx::Node& node : *model.mutable_graph()->mutable_node()) {
            if (node.op_type() == "LayerNormalization") {
                node.set_input(1, "a.weight");
                node.set_input(2, "a.bias");
            }
        }
        return model;
    }
};

TEST_F(OnnxNotes, EqualTensorsOfTwoModulesAreTwoLayers) {
    std::string path;
    onnx::Model model = twins(path);
    rewrite(path, model);
    EXPECT_THAT([&] { (void)read_onnx(path); },
                ThrowsMessage<FileError>(HasSubstr("two layers share the weights a.weight")))
        << "nothing says that they are two";
    std::string module = "a";
    for (onnx::Node& node : *model.mutable_graph()->mutable_node()) {
        if (node.op_type() == "LayerNormalization") {
            note_module(node, module, "normalization.LayerNorm",
                        fmt::format("[4], %p_{0}_weight, %p_{0}_bias", module));
            module = "b";
        }
    }
    rewrite(path, model);
    EXPECT_THAT(parameters(path),
                ElementsAre("a.weight[4]", "a.bias[4]", "b.weight[4]", "b.bias[4]",
                            "linear1.weight[2,20]", "linear1.bias[2]"));
}

TEST_F(OnnxNotes, ANormThatHasNoWeightsGetsNone) {
    for (const bool has : {true, false}) {
        GraphBuilder net("net", Shape{2, 3, 3});
        const Value x = net.batch_norm(net.input());
        ModelFile fresh = trained(net.finish(net.linear(net.flatten(x), {.features = 2})));
        fresh.graph.initialise(5, fresh.parameters, fresh.state);  // weights 1, biases 0
        const std::string path = written(fresh);
        onnx::Model model = parsed(path);
        note_module(node_of(model, "BatchNormalization"), "norm", "batchnorm.BatchNorm2d",
                    has ? "%p_norm_weight, %p_norm_bias" : "None, None");
        rewrite(path, model);
        if (has) {
            EXPECT_THAT(parameters(path), testing::Contains("norm.weight[2]"));
        } else {
            EXPECT_THAT([&] { (void)read_onnx(path); },
                        ThrowsMessage<FileError>(HasSubstr("a norm without weight and bias")));
        }
    }
}

TEST_F(OnnxNotes, OneParameterOfTwoModulesIsShared) {
    std::string path;
    onnx::Model model = twins(path);
    std::string module = "a";
    for (onnx::Node& node : *model.mutable_graph()->mutable_node()) {
        if (node.op_type() == "LayerNormalization") {
            note_module(node, module, "normalization.LayerNorm", "[4], %p_a_weight, %p_a_bias");
            module = "b";
        }
    }
    rewrite(path, model);
    EXPECT_THAT([&] { (void)read_onnx(path); },
                ThrowsMessage<FileError>(HasSubstr("two layers share the weights a.weight")));
}

TEST_F(OnnxNotes, BatchNormsInTheWeightsBeforeThemAreNoticed) {
    for (const char* rule : {"FuseBatchNormIntoConv", ""}) {
        GraphBuilder net("net", Shape{1, 6, 6});
        const Value x = net.conv(net.input(), {.channels = 2});
        const std::string path =
            written(trained(net.finish(net.linear(net.flatten(x), {.features = 2}))));
        onnx::Model model = parsed(path);
        onnx::Node& conv = node_of(model, "Conv");
        if (*rule != '\0') {
            add_note(conv, "pkg.onnxscript.rewriter.rule_name", rule);
        }
        note_module(conv, "1", "batchnorm.BatchNorm2d", "%p_1_weight, %p_1_bias");
        rewrite(path, model);
        EXPECT_THAT([&] { (void)read_onnx(path); },
                    ThrowsMessage<FileError>(AllOf(HasSubstr("1 layer without its batch norm"),
                                                   HasSubstr("optimize=False"))));
    }
}

TEST_F(OnnxNotes, ABiasOfZerosIsThereWhereTheModuleHasOne) {
    for (const bool has : {true, false}) {
        GraphBuilder net("net", Shape{3});
        const std::string path =
            written(trained(net.finish(net.linear(net.input(), {.features = 2, .bias = false}))));
        onnx::Model model = parsed(path);
        for (onnx::Node& node : *model.mutable_graph()->mutable_node()) {
            if (node.op_type() == "Gemm" || node.op_type() == "MatMul") {
                note_module(node, "fc", "linear.Linear",
                            has ? "%p_fc_weight, %p_fc_bias" : "%p_fc_weight");
            }
        }
        rewrite(path, model);
        EXPECT_EQ(parameters(path), has ? (std::vector<std::string>{"fc.weight[2,3]", "fc.bias[2]"})
                                        : (std::vector<std::string>{"fc.weight[2,3]"}));
    }
}

TEST_F(OnnxNotes, ZerosThatTheFileComputesAreNoBias) {
    for (const bool computed : {true, false}) {
        GraphBuilder net("net", Shape{1, 6, 6});
        const Value x = net.conv(net.input(), {.channels = 2, .bias = !computed});
        ModelFile model = trained(net.finish(net.linear(net.flatten(x), {.features = 2})));
        if (const FlatRange* bias = model.graph.parameters().find("conv1.bias")) {
            std::fill_n(model.parameters.begin() + bias->offset, bias->size, 0.0F);
        }
        const std::string path = written(model);
        onnx::Model file = parsed(path);
        if (computed) {
            onnx::Tensor& extents = *file.mutable_graph()->add_initializer();
            extents.set_name("extents");
            extents.set_data_type(kOnnxInt64);
            extents.add_dims(1);
            extents.add_int64_data(2);
            auto* nodes = file.mutable_graph()->mutable_node();
            onnx::Node& zeros = *nodes->Add();
            zeros.set_op_type("ConstantOfShape");
            zeros.add_input("extents");
            zeros.add_output("zeros");
            for (int at = nodes->size() - 1; at > 0; --at) {
                nodes->SwapElements(at, at - 1);
            }
            node_of(file, "Conv").add_input("zeros");
        }
        rewrite(path, file);
        EXPECT_EQ(std::ranges::count(parameters(path), "conv1.bias[2]"), computed ? 0 : 1);
    }
}

}  // namespace
}  // namespace cohort::test
