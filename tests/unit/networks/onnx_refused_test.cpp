// ONNX files that are refused, and what the messages name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "cohort/core/error.hpp"
#include "data/networks/onnx/onnx_import.hpp"
#include "unit/networks/onnx_rig.hpp"

namespace cohort::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Changes of the parsed file of a small convolutional network, and what the refusal says.
struct Refused {
    const char* name;
    void (*change)(onnx::Model& model);
    testing::Matcher<std::string> complaint;
};

class RefusedOnnx : public testing::TestWithParam<Refused> {
protected:
    TempFolder folder;
};

TEST_P(RefusedOnnx, SaysWhatAndWhere) {
    GraphBuilder net("net", Shape{2, 8, 8});
    Value x = net.relu(net.batch_norm(net.conv(net.input(), {.channels = 3, .padding = 1})));
    x = net.flatten(net.average_pool(net.max_pool(x, {}), {.padding = 1}));
    const std::string path = folder.file("net.onnx");
    write_onnx({path, true, FolderRule::kAny}, trained(net.finish(net.linear(x, {.features = 2}))));
    onnx::Model model = parsed(path);
    GetParam().change(model);
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    EXPECT_THAT([&] { (void)read_onnx(path); },
                ThrowsMessage<FileError>(AllOf(HasSubstr(path), GetParam().complaint)));
}

INSTANTIATE_TEST_SUITE_P(
    Onnx, RefusedOnnx,
    testing::Values(
        Refused{"UnknownOperatorsAreAllNamed",
                [](onnx::Model& m) {
                    node_of(m, "Relu").set_op_type("GRU");
                    node_of(m, "MaxPool").set_op_type("Magic");
                },
                AllOf(HasSubstr("2 of 7 nodes"), HasSubstr("GRU relu1.output: recurrent layers"),
                      HasSubstr("Magic max_pool1.output: no layer does this"))},
        Refused{"NegativePadding",
                [](onnx::Model& m) {
                    set_ints(node_of(m, "Conv"), "pads", {1, 1, -1, 0});
                },
                HasSubstr("Conv conv1.output: pads 1,1,-1,0; 4 numbers from 0 on are expected")},
        Refused{"UnknownPadding",
                [](onnx::Model& m) { add_text(node_of(m, "Conv"), "auto_pad", "SAME"); },
                HasSubstr("auto_pad SAME; NOTSET, SAME_UPPER")},
        Refused{"WindowOfPadding",
                [](onnx::Model& m) {
                    set_ints(node_of(m, "AveragePool"), "pads", {2, 0, 0, 0});
                },
                AllOf(HasSubstr("AveragePool average_pool1.output"),
                      HasSubstr("a window can hold nothing but padding"))},
        Refused{"MeanThatCountsPaddingAndReachesBeyondIt",
                [](onnx::Model& m) {
                    onnx::Node& pool = node_of(m, "AveragePool");
                    set_ints(pool, "kernel_shape", {3, 3});
                    add_number(pool, "ceil_mode", 1);
                    add_number(pool, "count_include_pad", 1);
                },
                HasSubstr("ceil_mode=False, or count_include_pad=False")},
        Refused{"KernelOfOneNumber",
                [](onnx::Model& m) { set_ints(node_of(m, "MaxPool"), "kernel_shape", {2}); },
                HasSubstr("kernel_shape 2; 2 numbers from 1 on")},
        Refused{"DynamicAxis",
                [](onnx::Model& m) {
                    m.mutable_graph()
                        ->mutable_input(0)
                        ->mutable_type()
                        ->mutable_tensor_type()
                        ->mutable_shape()
                        ->mutable_dim(2)
                        ->set_dim_param("height");
                },
                AllOf(HasSubstr("axis 2 of input input is dynamic"), HasSubstr("got height"))},
        Refused{"HalfPrecision",
                [](onnx::Model& m) {
                    m.mutable_graph()->mutable_initializer(0)->set_data_type(10);
                    m.mutable_graph()->mutable_initializer(1)->set_data_type(16);
                },
                AllOf(HasSubstr("conv1.weight (float16)"), HasSubstr("conv1.bias (bfloat16)"))},
        Refused{"FoldedBatchNorm",
                [](onnx::Model& m) {
                    m.mutable_graph()->mutable_initializer(0)->set_name("onnx::Conv_193");
                },
                AllOf(HasSubstr("for inference"), HasSubstr("TrainingMode.TRAINING"))},
        Refused{"TwoOutputs",
                [](onnx::Model& m) { m.mutable_graph()->add_output()->set_name("other"); },
                HasSubstr("expected 1 and 1, got 1 and 2")},
        Refused{"WrongLength",
                [](onnx::Model& m) {
                    m.mutable_graph()->mutable_initializer(0)->mutable_raw_data()->resize(12);
                },
                HasSubstr("has 3 numbers for the shape")},
        Refused{"WeightsOutsideOfTheFolder",
                [](onnx::Model& m) {
                    onnx::Tensor& weight = *m.mutable_graph()->mutable_initializer(0);
                    weight.clear_raw_data();
                    weight.set_data_location(1);
                    onnx::Entry& entry = *weight.add_external_data();
                    entry.set_key("location");
                    entry.set_value("../weights");
                },
                HasSubstr("lie outside of its folder")},
        Refused{"ComputedBias", [](onnx::Model& m) { node_of(m, "Conv").set_input(2, "nowhere"); },
                HasSubstr("input 2 is no weight")},
        Refused{"ComputedBiasOfAProduct",
                [](onnx::Model& m) { node_of(m, "Gemm").set_input(2, "nowhere"); },
                HasSubstr("input 2 is no weight")},
        Refused{"TwoPaddings",
                [](onnx::Model& m) {
                    set_ints(node_of(m, "Conv"), "pads", {1, 1});
                },
                HasSubstr("pads 1,1; 4 numbers from 0 on")},
        Refused{"StrideOfZero",
                [](onnx::Model& m) {
                    set_ints(node_of(m, "MaxPool"), "strides", {0, 0});
                },
                HasSubstr("strides 0,0; 2 numbers from 1 on")},
        Refused{"NegativeExtents",
                [](onnx::Model& m) {
                    onnx::Tensor& weight = *m.mutable_graph()->mutable_initializer(0);
                    weight.set_dims(0, -weight.dims(0));
                    weight.set_dims(1, -weight.dims(1));
                },
                HasSubstr("has a negative extent")},
        Refused{"NodeWithoutOutput", [](onnx::Model& m) { node_of(m, "Relu").clear_output(); },
                HasSubstr("Relu relu1.output has no input or no output")},
        Refused{"NodeWithoutInput", [](onnx::Model& m) { node_of(m, "Relu").clear_input(); },
                HasSubstr("Relu relu1.output has no input or no output")},
        Refused{"ConstantOfAnEndlessShape",
                [](onnx::Model& m) {
                    onnx::Tensor& shape = *m.mutable_graph()->add_initializer();
                    shape.set_name("shape");
                    shape.set_data_type(kOnnxInt64);
                    shape.add_dims(3);
                    for (const std::int64_t extent :
                         {std::int64_t{1} << 32, std::int64_t{1} << 32, std::int64_t{-1}}) {
                        shape.add_int64_data(extent);
                    }
                    onnx::Node& node = *m.mutable_graph()->add_node();
                    node.set_op_type("Reshape");
                    node.add_input("conv1.bias");
                    node.add_input("shape");
                    node.add_output("endless");
                },
                HasSubstr("is too large")},
        Refused{"MissingWeight", [](onnx::Model& m) { node_of(m, "Conv").set_input(1, "nowhere"); },
                HasSubstr("input 1 is no weight")},
        Refused{"UnknownOutput",
                [](onnx::Model& m) { m.mutable_graph()->mutable_output(0)->set_name("nowhere"); },
                HasSubstr("the output does not depend on the input")}),
    [](const auto& one) { return one.param.name; });

TEST_F(OnnxFiles, AnLstmThatComputesSomethingElseIsRefused) {
    GraphBuilder net("waves", Shape{5, 3});
    const Value x = net.last_position(net.lstm(net.input(), {.hidden = 4}));
    const std::string path = written(trained(net.finish(net.linear(x, {.features = 2}))));
    const onnx::Model whole = parsed(path);
    const auto expect_refused = [&](const std::function<void(onnx::Node&, onnx::Model&)>& change,
                                    const char* complaint) {
        onnx::Model model = whole;
        change(node_of(model, "LSTM"), model);
        std::ofstream(path, std::ios::binary) << model.SerializeAsString();
        EXPECT_THAT([&] { (void)read_onnx(path); }, ThrowsMessage<FileError>(HasSubstr(complaint)));
    };
    const auto reshape = [](int input, std::vector<std::int64_t> shape) {
        return [input, shape](onnx::Node& node, onnx::Model& model) {
            for (onnx::Tensor& weight : *model.mutable_graph()->mutable_initializer()) {
                if (weight.name() == node.input(input)) {
                    weight.mutable_dims()->Assign(shape.begin(), shape.end());
                }
            }
        };
    };
    expect_refused(reshape(1, {1, 6, 8}), "do not fit each other");
    expect_refused(reshape(2, {1, 4, 16}), "do not fit each other");
    expect_refused(reshape(2, {64}), "do not fit each other");
    expect_refused(reshape(3, {32}), "do not fit each other");
    expect_refused([](auto& node, auto&) { node.set_input(3, "nowhere"); }, "input 3 is no weight");
    const auto add_input = [](int index) {
        return [index](onnx::Node& node, onnx::Model&) {
            while (node.input_size() < index) {
                node.add_input("");
            }
            node.add_input("nowhere");
        };
    };
    expect_refused(add_input(4), "lengths of sequences");
    expect_refused(add_input(5), "does not start at zero");
    expect_refused(add_input(7), "peepholes");
    const auto add_attribute = [](const char* name) {
        return [name](onnx::Node& node, onnx::Model&) {
            onnx::Attribute& attribute = *node.add_attribute();
            attribute.set_name(name);
            attribute.set_i(1);
            attribute.add_strings("Relu");
        };
    };
    expect_refused(add_attribute("clip"), "clipped gates");
    expect_refused(add_attribute("input_forget"), "tied to the forget gate");
    expect_refused(add_attribute("activations"), "other activations");
}

TEST_F(OnnxFiles, AnAttentionWhoseQueriesAreItsKeysIsRefused) {
    GraphBuilder net("seen", Shape{5, 12});
    const Value x = net.attention(net.input(), {.heads = 2});
    const std::string path =
        written(trained(net.finish(net.linear(net.flatten(x), {.features = 2}))));
    onnx::Model model = parsed(path);
    node_of(model, "MatMul").set_input(0, node_of(model, "Split").output(1));
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    EXPECT_THAT([&] { (void)read_onnx(path); },
                ThrowsMessage<FileError>(HasSubstr("in another order")));
}

TEST_F(OnnxFiles, TornFilesAreRefused) {
    const std::string path = written(trained(make_model("lenet", Shape{1, 12, 12}, 4)));
    const auto whole = std::filesystem::file_size(path);
    for (const auto length : {whole - 1, whole / 2, std::uintmax_t{7}, std::uintmax_t{0}}) {
        std::filesystem::resize_file(path, length);
        EXPECT_THROW((void)read_onnx(path), FileError) << length;
    }
    std::ofstream(path) << "not a network";
    EXPECT_THROW((void)read_onnx(path), FileError);
    EXPECT_THROW((void)read_onnx(folder.file("missing.onnx")), FileError);
}

TEST_F(OnnxFiles, ANetworkWithoutParametersIsRefused) {
    onnx::Model model;
    onnx::Graph& graph = *model.mutable_graph();
    for (onnx::ValueInfo* value : {graph.add_input(), graph.add_output()}) {
        onnx::TensorType& type = *value->mutable_type()->mutable_tensor_type();
        type.set_elem_type(kOnnxFloat);
        type.mutable_shape()->add_dim()->set_dim_param("batch");
        type.mutable_shape()->add_dim()->set_dim_value(4);
    }
    graph.mutable_input(0)->set_name("x");
    graph.mutable_output(0)->set_name("y");
    onnx::Node& node = *graph.add_node();
    node.set_op_type("Relu");
    node.add_input("x");
    node.add_output("y");
    const std::string path = folder.file("plain.onnx");
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    EXPECT_THAT([&] { (void)read_onnx(path); },
                ThrowsMessage<FileError>(HasSubstr("the network has no parameters")));
}

}  // namespace
}  // namespace cohort::test
