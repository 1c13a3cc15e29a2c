// Networks as text: what is read back is the network that was written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cohort/core/error.hpp"
#include "cohort/networks/network.hpp"
#include "data/hdf5/store.hpp"
#include "data/networks/model_file.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

Graph zoo_model(const std::string& name) {
    return make_model(name, reads_text(name)
                                ? ModelInput{.shape = {12}, .classes = 50, .tokens = true}
                                : ModelInput{.shape = {3, 32, 32}, .classes = 7});
}

std::vector<float> drawn(const Graph& graph) {
    std::vector<float> parameters(static_cast<std::size_t>(graph.parameters().total()));
    std::vector<float> state(static_cast<std::size_t>(graph.state().total()));
    graph.initialise(3, parameters, state);
    parameters.insert(parameters.end(), state.begin(), state.end());
    return parameters;
}

/// Name, shape and place of every tensor.
std::vector<std::string> table(const FlatLayout& layout) {
    std::vector<std::string> rows;
    for (const FlatRange& range : layout.ranges()) {
        rows.push_back(range.name + to_string(range.shape) + std::to_string(range.offset) +
                       (range.decay ? " decays" : ""));
    }
    return rows;
}

class NetworkText : public testing::TestWithParam<std::string> {};

TEST_P(NetworkText, GivesTheSameNetwork) {
    const Graph graph = zoo_model(GetParam());
    const std::string text = network_text(graph);
    const Graph again = read_network(text, "here");
    EXPECT_EQ(network_text(again), text);
    EXPECT_EQ(table(again.parameters()), table(graph.parameters()));
    EXPECT_EQ(table(again.state()), table(graph.state()));
    EXPECT_EQ(describe(again), describe(graph)) << "with the same fusions";
    EXPECT_EQ(again.loss(), graph.loss());
    EXPECT_EQ(again.vocabulary(), graph.vocabulary());
    EXPECT_EQ(network_difference(text, network_text(again), "here"), "");
    if (graph.parameters().total() < 1'000'000) {
        EXPECT_EQ(drawn(again), drawn(graph));
    }
}

INSTANTIATE_TEST_SUITE_P(Zoo, NetworkText, testing::ValuesIn(model_names()),
                         [](const auto& one) { return one.param; });

TEST(NetworkTextOf, ARegressionOfSequences) {
    GraphBuilder net("waves", Shape{5, 3});
    const Value x = net.layer_norm(net.lstm(net.input(), {.hidden = 4}), {.epsilon = 0.1F});
    const Graph graph =
        net.finish_regression(net.sigmoid(net.linear(net.last_position(x), {.features = 2})));
    const Graph again = read_network(network_text(graph), "here");
    EXPECT_EQ(again.loss(), LossKind::kMeanSquaredError);
    EXPECT_EQ(describe(again), describe(graph));
    EXPECT_EQ(drawn(again), drawn(graph));
}

Graph rectangles() {
    GraphBuilder net("rectangles", Shape{2, 9, 9});
    Value x = net.conv(net.input(), {.channels = 4,
                                     .kernel = {1, 7},
                                     .stride = {2, 1},
                                     .padding = {0, 3, 1, 3},
                                     .dilation = {2, 1}});
    x = net.average_pool(x, {.kernel = {2, 3}, .stride = 1, .padding = {0, 1, 0, 2}});
    x = net.average_pool(x, {.padding = 1, .count_padding = true});
    x = net.max_pool(x, {.kernel = {2, 1}, .stride = 1, .dilation = {2, 1}});
    return net.finish(net.linear(net.flatten(x), {.features = 2}));
}

TEST(NetworkTextOf, RectanglesHasANumberForEachAxisOrSide) {
    const std::string text = network_text(rectangles());
    EXPECT_EQ(network_text(read_network(text, "here")), text);
    const Json layers = Json::parse(text)["layers"];
    const Json conv = layers[0]["attributes"];
    EXPECT_EQ(conv["kernel"], Json({1, 7}));
    EXPECT_EQ(conv["stride"], Json({2, 1}));
    EXPECT_EQ(conv["dilation"], Json({2, 1}));
    EXPECT_EQ(conv["padding"], Json({0, 3, 1, 3}));
    EXPECT_EQ(layers[1]["attributes"],
              Json::parse(R"({"kernel": [2, 3], "padding": [0, 1, 0, 2], "stride": 1})"));
    EXPECT_EQ(layers[2]["attributes"]["count_padding"], 1);
    EXPECT_EQ(layers[3]["attributes"]["dilation"], Json({2, 1}));
}

// As files hold it that were written before windows had two axes.
TEST(NetworkTextOf, ASquareWindowIsOneNumberAsEver) {
    const std::string text =
        R"({"format":"cohort-network","version":1,"name":"old","input":[1,8,8],"layers":[)"
        R"({"name":"conv1","kind":"conv","inputs":[""],"attributes":{"bias":1.0,"channels":4.0,)"
        R"("dilation":1.0,"groups":1.0,"kernel":3.0,"padding":1.0,"stride":2.0}},)"
        R"({"name":"max_pool1","kind":"max_pool","inputs":["conv1"],)"
        R"("attributes":{"kernel":2.0,"padding":0.0,"stride":2.0}},)"
        R"({"name":"flatten1","kind":"flatten","inputs":["max_pool1"]},)"
        R"({"name":"linear1","kind":"linear","inputs":["flatten1"],)"
        R"("attributes":{"bias":1.0,"features":3.0,"uniform":0.0}}],)"
        R"("output":"linear1","loss":"cross_entropy"})";
    const Graph graph = read_network(text, "old.h5");
    EXPECT_EQ(graph.parameters().ranges()[0].shape, (Shape{4, 1, 3, 3}));
    EXPECT_EQ(network_text(graph), text);
}

/// A change of a good text, and what the refusal says.
struct Damage {
    const char* name;
    void (*change)(Json& network);
    const char* complaint;
};

class DamagedText : public testing::TestWithParam<Damage> {};

TEST_P(DamagedText, IsRefusedByName) {
    Json network = Json::parse(network_text(zoo_model("lenet")));
    GetParam().change(network);
    EXPECT_THAT([&] { (void)read_network(network.dump(), "model.h5/network"); },
                ThrowsMessage<FileError>(
                    AllOf(HasSubstr("model.h5/network"), HasSubstr(GetParam().complaint))));
}

INSTANTIATE_TEST_SUITE_P(
    NetworkText, DamagedText,
    testing::Values(
        Damage{"Version", [](Json& n) { n["version"] = 9; }, "version"},
        Damage{"Format", [](Json& n) { n["format"] = "other"; }, "no JSON of a network"},
        Damage{"NoLayers", [](Json& n) { n.erase("layers"); }, "layers"},
        Damage{"Kind", [](Json& n) { n["layers"][0]["kind"] = "magic"; }, "unknown kind of layer"},
        Damage{"Attribute", [](Json& n) { n["layers"][0]["attributes"]["kernel"] = 2.5; },
               "unusable attribute kernel"},
        Damage{"ThreeAxes",
               [](Json& n) {
                   n["layers"][0]["attributes"]["kernel"] = {1, 2, 3};
               },
               "unusable attribute kernel; expected a whole number, or [height, width], got 1.0"},
        Damage{
            "TwoSides",
            [](Json& n) {
                n["layers"][0]["attributes"]["padding"] = {1, 2};
            },
            "unusable attribute padding; expected a whole number, or [top, left, bottom, right]"},
        Damage{"TwoChannels",
               [](Json& n) {
                   n["layers"][0]["attributes"]["channels"] = {1, 2};
               },
               "unusable attribute channels"},
        Damage{"Words", [](Json& n) { n["layers"][0]["attributes"]["kernel"] = "three"; },
               "damaged"},
        Damage{"Missing", [](Json& n) { n["layers"][0]["attributes"].erase("stride"); },
               "unusable attribute stride"},
        Damage{"Unknown", [](Json& n) { n["layers"][0]["attributes"]["angle"] = 1; },
               "unknown attribute; got angle"},
        Damage{"Negative", [](Json& n) { n["layers"][0]["attributes"]["channels"] = -4; },
               "unusable attribute channels"},
        Damage{"Input", [](Json& n) { n["layers"][1]["inputs"][0] = "nowhere"; },
               "no layer of this name"},
        Damage{"Loss", [](Json& n) { n["loss"] = "hinge"; }, "no loss of this name"},
        Damage{"SameName", [](Json& n) { n["layers"][1]["name"] = n["layers"][0]["name"]; },
               "name of its own"},
        Damage{"Shape",
               [](Json& n) {
                   n["input"] = {3, 2, 2};
               },
               "does not fit"},
        Damage{"Text", [](Json& n) { n = "words"; }, "no JSON of a network"}),
    [](const auto& one) { return one.param.name; });

TEST(NetworkDifference, NamesTheFirstLayerThatDiffers) {
    const std::string lenet = network_text(zoo_model("lenet"));
    Json other = Json::parse(lenet);
    other["name"] = "renamed";
    EXPECT_EQ(network_difference(lenet, other.dump(), "here"), "");
    other["layers"][3]["name"] = "fourth";
    EXPECT_THAT(network_difference(lenet, other.dump(), "here"), HasSubstr("layer 4"));
}

/// Of a network that a program computes, in Python for instance.
Graph tensors_alone(std::vector<NamedTensor> parameters) {
    return make_tensor_graph("module", parameters,
                             {{"norm.running_mean", Shape{3}, {0.5F, -1, 2}}});
}
const NamedTensor kWeight{"fc.weight", Shape{2, 3}, {1, 2, 3, 4, 5, 6}};
const NamedTensor kBias{"fc.bias", Shape{2}, {7, 8}};

TEST(ATensorNetwork, IsDescribedByItsTensors) {
    const std::string text = network_text(tensors_alone({kWeight, kBias}));
    const Json network = Json::parse(text);
    EXPECT_EQ(network["parameters"], Json::parse(R"([["fc.weight", [2, 3]], ["fc.bias", [2]]])"));
    EXPECT_EQ(network["state"], Json::parse(R"([["norm.running_mean", [3]]])"));
    EXPECT_EQ(network_difference(text, network_text(tensors_alone({kWeight, kBias})), "here"), "");
    EXPECT_THAT(network_difference(text, network_text(tensors_alone({kWeight})), "here"),
                AllOf(HasSubstr("parameters"), HasSubstr("fc.bias")));
}

TEST(ATensorNetwork, IsWrittenWithItsValuesAndEvaluatedByItsProgram) {
    const TempFolder folder;
    const std::string path = folder.file("model.h5");
    ModelFile model{.graph = tensors_alone({kWeight, kBias}), .sample_shape = {}};
    model.parameters.resize(static_cast<std::size_t>(model.graph.parameters().total()));
    model.state.resize(static_cast<std::size_t>(model.graph.state().total()));
    model.graph.initialise(1, model.parameters, model.state);
    Hdf5Thread hdf5;
    write_model({path, true, FolderRule::kAny}, model, hdf5);
    {
        const StoreReader reader(path, hdf5);
        EXPECT_EQ(reader.get<float>("/parameters/fc.weight"), kWeight.values);
        EXPECT_EQ(reader.shape("/parameters/fc.weight"), (std::vector<std::int64_t>{2, 3}));
        EXPECT_EQ(reader.get<float>("/parameters/fc.bias"), kBias.values);
        EXPECT_EQ(reader.get<float>("/state/norm.running_mean"), (std::vector{0.5F, -1.0F, 2.0F}));
    }
    EXPECT_THAT([&] { (void)read_trained(path, hdf5); },  // as `cohort eval` does
                ThrowsMessage<FileError>(AllOf(HasSubstr(path), HasSubstr("also computes it"),
                                               HasSubstr("cohort.torch.load(module, file)"))));
}

TEST(NetworkText, TakesANameThatIsNoUtf8) {
    GraphBuilder net("caf\xE9", Shape{2});
    const Graph graph = net.finish(net.linear(net.input(), {.features = 3}));
    EXPECT_EQ(read_network(network_text(graph), "here").name(), "caf\uFFFD");
}

TEST(MakeGraph, BuildsWhatAProgramGives) {
    const ModelSource own{.model = "mine", .build = [](const ModelInput& input) {
                              GraphBuilder net("mine", input.shape);
                              return net.finish(net.linear(net.input(), {.features = 3}));
                          }};
    check_source(own);
    EXPECT_EQ(make_graph(own, {.shape = {6}, .classes = 3}).name(), "mine");
    EXPECT_THAT([&] { (void)make_graph(own, {.shape = {6}, .classes = 4}); },
                ThrowsMessage<ShapeError>(HasSubstr("does not fit the samples")));
    EXPECT_THROW(check_source({.model = "mine"}), UsageError);
}

}  // namespace
}  // namespace cohort
