// ONNX files: networks written and read back by ourselves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/networks/network.hpp"
#include "data/networks/named_tensors.hpp"
#include "data/networks/onnx/onnx_import.hpp"
#include "unit/networks/onnx_rig.hpp"

namespace cohort::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST_F(OnnxFiles, ImagesComeBackWithTheSameBits) {
    for (const char* name : {"lenet", "resnet20", "mlp", "smallcnn", "mobilenetv2"}) {
        SCOPED_TRACE(name);
        expect_same_after_writing(make_model(name, Shape{3, 16, 16}, 5));
    }
    expect_same_after_writing(make_model("googlenet", Shape{3, 8, 8}, 5));
    expect_same_after_writing(make_model("densenet121", Shape{3, 8, 8}, 5));
}

TEST_F(OnnxFiles, RectanglesComeBackWithTheSameBits) {
    GraphBuilder net("rectangles", Shape{4, 9, 8});
    Value x = net.conv(net.input(), {.channels = 6, .kernel = {1, 7}, .padding = {0, 3, 0, 3}});
    x = net.conv(x, {.channels = 8,
                     .kernel = {3, 2},
                     .stride = {1, 2},
                     .padding = {2, 0, 1, 1},
                     .dilation = {2, 1},
                     .groups = 2});
    x = net.concat(
        {net.max_pool(x,
                      {.kernel = {2, 3}, .stride = 1, .padding = {1, 0, 2, 2}, .dilation = {2, 1}}),
         net.average_pool(
             x, {.kernel = {2, 3}, .stride = 1, .padding = {1, 2, 1, 0}, .count_padding = false}),
         net.average_pool(
             x, {.kernel = {2, 3}, .stride = 1, .padding = {1, 0, 1, 2}, .count_padding = true})});
    expect_same_after_writing(net.finish(net.linear(net.flatten(x), {.features = 3})));
}

/// The padding of the first layer of that kind.
std::vector<double> padding_of(const std::string& path, std::string_view kind) {
    const Graph graph = read_onnx(path).graph;
    for (const Graph::Node& layer : graph.layers()) {
        if (layer.layer->kind() == kind) {
            return layer.layer->attributes().at("padding");
        }
    }
    return {};
}

TEST_F(OnnxFiles, PaddingFollowsFromTheInput) {
    GraphBuilder net("padded", Shape{1, 8, 9});
    Value x = net.conv(net.input(), {.channels = 2, .kernel = {4, 3}, .stride = {2, 3}});
    x = net.global_average_pool(net.max_pool(x, {.kernel = {2, 1}, .stride = {2, 1}}));
    const std::string path =
        written(trained(net.finish(net.linear(net.flatten(x), {.features = 2}))));
    const onnx::Model whole = parsed(path);
    const auto rewrite = [&](const char* op, const auto& change) {
        onnx::Model model = whole;
        change(node_of(model, op));
        std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    };
    using Sides = std::vector<double>;
    // Four outputs down of windows of four at a stride of two reach over ten cells; three across
    // need nothing.
    rewrite("Conv", [](onnx::Node& node) { add_text(node, "auto_pad", "SAME_UPPER"); });
    EXPECT_EQ(padding_of(path, "conv"), (Sides{1, 0, 1, 0}));
    rewrite("Conv", [](onnx::Node& node) {
        set_ints(node, "strides", {1, 3});
        add_text(node, "auto_pad", "SAME_UPPER");
    });
    EXPECT_EQ(padding_of(path, "conv"), (Sides{1, 0, 2, 0}));
    rewrite("Conv", [](onnx::Node& node) {
        set_ints(node, "strides", {1, 3});
        add_text(node, "auto_pad", "SAME_LOWER");
    });
    EXPECT_EQ(padding_of(path, "conv"), (Sides{2, 0, 1, 0}));
    rewrite("Conv", [](onnx::Node& node) { add_text(node, "auto_pad", "VALID"); });
    EXPECT_EQ(padding_of(path, "conv"), Sides{0});
    // Of the three rows that the convolution makes, the last is read by a window that begins there.
    rewrite("MaxPool", [](onnx::Node& node) { add_number(node, "ceil_mode", 1); });
    EXPECT_EQ(padding_of(path, "max_pool"), (Sides{0, 0, 1, 0}));
    // One that would begin in the padding is left out.
    rewrite("MaxPool", [](onnx::Node& node) {
        add_number(node, "ceil_mode", 1);
        set_ints(node, "pads", {1, 0, 1, 0});
    });
    EXPECT_EQ(padding_of(path, "max_pool"), (Sides{1, 0, 1, 0}));
}

/// Sums of eight equal values are beyond 6 now and then.
Graph bounded_network() {
    GraphBuilder net("bounded", Shape{1, 5, 5});
    Value x = net.conv(net.input(), {.channels = 4});
    for (int doubled = 0; doubled < 3; ++doubled) {
        x = net.add(x, x);
    }
    return net.finish(net.linear(net.flatten(net.relu6(x)), {.features = 2}));
}

TEST_F(OnnxFiles, ABoundedReluComesBackWithTheSameBits) {
    expect_same_after_writing(bounded_network());
}

/// The kind of layer that a Clip becomes.
std::string kind_of_clip(const std::string& path) {
    const Graph graph = read_onnx(path).graph;
    return std::string(graph.layers().at(4).layer->kind());
}

TEST_F(OnnxFiles, BoundsAreInputsOrAttributes) {
    const std::string path = written(trained(bounded_network()));
    EXPECT_EQ(kind_of_clip(path), "relu6");
    onnx::Model model = parsed(path);
    onnx::Node& clip = node_of(model, "Clip");
    clip.mutable_input()->RemoveLast();
    const auto rewrite = [&] {
        std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    };
    rewrite();
    EXPECT_EQ(kind_of_clip(path), "relu") << "without a largest output";
    clip.mutable_input()->RemoveLast();  // as operator set 6
    for (const auto& [name, value] : {std::pair("min", 0.0F), std::pair("max", 6.0F)}) {
        onnx::Attribute& bound = *clip.add_attribute();
        bound.set_name(name);
        bound.set_f(value);
    }
    rewrite();
    EXPECT_EQ(kind_of_clip(path), "relu6");
    clip.mutable_attribute(1)->set_f(4);
    rewrite();
    EXPECT_THAT([&] { (void)read_onnx(path); },
                ThrowsMessage<FileError>(HasSubstr("bounds 0 and 4; 0 and 6 are trained")));
}

TEST_F(OnnxFiles, SequencesComeBackWithTheSameBits) {
    expect_same_after_writing(make_model("lstm", {.shape = {6}, .classes = 11, .tokens = true}));
    GraphBuilder net("waves", Shape{5, 3});
    Value x = net.lstm(net.input(), {.hidden = 4});
    x = net.gelu(net.layer_norm(net.last_position(x)));
    expect_same_after_writing(net.finish(net.linear(net.tanh(net.sigmoid(x)), {.features = 2})));
    GraphBuilder tied("tied", TokenInput{.positions = 4, .vocabulary = 9});
    const Value rows = tied.embedding(tied.input(), {.features = 3});
    expect_same_after_writing(tied.finish(tied.linear_tied(tied.dropout(rows, 0.25F), rows)));
}

TEST_F(OnnxFiles, AttentionComesBackWithTheSameBits) {
    const ModelInput text{.shape = {6}, .classes = 11, .tokens = true};
    expect_same_after_writing(make_model("gpt:8,2,2", text));
    GraphBuilder net("seen", Shape{5, 12});  // every position sees all others
    const Value x = net.attention(net.input(), {.heads = 2, .causal = false});
    expect_same_after_writing(net.finish(net.linear(net.flatten(x), {.features = 2})));
}

Graph two_targets() {
    GraphBuilder net("targets", Shape{3});
    return net.finish_regression(net.linear(net.input(), {.features = 2}));
}

TEST_F(OnnxFiles, ScalesOfSamplesAndTargetsComeBack) {
    ModelFile model = trained(two_targets());
    model.classes = 0;
    model.mean = {0.1F, -2, 3e10F};
    model.std = {1, 0.25F, 1e-7F};
    model.target_mean = {1.0F / 3, -5};
    model.target_std = {7, 1e9F};
    const ModelFile again = read(written(model));
    EXPECT_EQ(again.mean, model.mean);
    EXPECT_EQ(again.std, model.std);
    EXPECT_EQ(again.target_mean, model.target_mean);
    EXPECT_EQ(again.target_std, model.target_std);
    EXPECT_EQ(again.classes, 0);
    EXPECT_EQ(again.graph.loss(), LossKind::kMeanSquaredError);
    EXPECT_EQ(outputs(again.graph, again), outputs(model.graph, model));
}

TEST_F(OnnxFiles, UnusableScalesAreRefused) {
    ModelFile model = trained(two_targets());
    model.classes = 0;
    model.target_mean = {1, 2};
    model.target_std = {1, 0};
    EXPECT_THAT([&] { (void)read(written(model)); },
                ThrowsMessage<FileError>(
                    AllOf(HasSubstr("cohort.target_std"), HasSubstr("above 0, got 1 0"))));
    model.target_std = {1, 2, 3};
    EXPECT_THAT([&] { (void)read(written(model)); },
                ThrowsMessage<FileError>(
                    AllOf(HasSubstr("do not fit the targets"), HasSubstr("got 2 and 3"))));
}

TEST_F(OnnxFiles, TheSourceOfAJobIsTheFile) {
    const ModelFile model = trained(make_model("lenet", Shape{1, 12, 12}, 4));
    const ModelSource source{.model = written(model)};
    check_source(source);
    EXPECT_EQ(usual_input(source, {}).shape, (Shape{1, 12, 12}));
    const Graph graph = make_graph(source, {.shape = {1, 12, 12}, .classes = 4});
    std::vector<float> parameters(model.parameters.size());
    graph.initialise(99, parameters, {});
    EXPECT_EQ(parameters, model.parameters) << "not drawn";
    EXPECT_THAT(
        [&] {
            (void)make_graph(source, {.shape = {3, 12, 12}, .classes = 4});
        },
        ThrowsMessage<ShapeError>(HasSubstr("does not fit the samples")));
}

TEST_F(OnnxFiles, SafetensorsStartTheSameNetwork) {
    const ModelFile model =
        trained(make_model("lstm", {.shape = {6}, .classes = 11, .tokens = true}));
    const std::string path = folder.file("net.safetensors");
    write_safetensors({path, true, FolderRule::kAny}, model);
    std::vector<std::string> news;
    const Graph graph = make_graph({.model = "lstm", .init = path},
                                   {.shape = {6}, .classes = 11, .tokens = true}, &news);
    std::vector<float> parameters(model.parameters.size());
    graph.initialise(99, parameters, {});
    EXPECT_EQ(parameters, model.parameters);
    EXPECT_EQ(news.size(), 1U) << "nothing missing, nothing left";
}

}  // namespace
}  // namespace cohort::test
