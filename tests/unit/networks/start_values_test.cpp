// Weights of a file as initial values.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cohort/core/error.hpp"
#include "cohort/networks/network.hpp"
#include "data/networks/model_file.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Tensor {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
};

/// A safetensors file of F32 tensors; `change` may spoil the header.
void write_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                       const std::function<void(nlohmann::json&)>& change = {}) {
    nlohmann::json header{{"__metadata__", {{"format", "pt"}}}};
    std::string data;
    for (const auto& [name, tensor] : tensors) {
        const std::size_t begin = data.size();
        data.append(reinterpret_cast<const char*>(tensor.values.data()),
                    tensor.values.size() * sizeof(float));
        header[name] = {
            {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    if (change) {
        change(header);
    }
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << text << data;
}

std::vector<float> counted(std::size_t count, float first = 0) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), first);
    return values;
}

Graph line(const ModelInput& input) {
    GraphBuilder net("line", input.shape);
    return net.finish(net.append(make_linear({.features = 2}), {net.input()}, "fc"));
}

Graph recurrent(const ModelInput& input) {
    GraphBuilder net("recurrent", input.shape);
    const Value x = net.append(make_lstm({.hidden = 1}), {net.input()}, "rnn");
    return net.finish(net.append(make_linear({.features = 2}), {net.last_position(x)}, "fc"));
}

class StartValues : public testing::Test {
protected:
    Graph start(GraphFactory build, const Shape& shape) {
        news.clear();
        return make_graph({.model = "own", .init = file, .build = std::move(build)},
                          {.shape = shape, .classes = 2}, &news);
    }

    static std::vector<float> values(const Graph& graph, const std::string& name) {
        std::vector<float> parameters(static_cast<std::size_t>(graph.parameters().total()));
        std::vector<float> state(static_cast<std::size_t>(graph.state().total()));
        graph.initialise(1, parameters, state);
        const FlatRange* range = graph.parameters().find(name);
        return {parameters.begin() + range->offset,
                parameters.begin() + range->offset + range->size};
    }

    TempFolder folder;
    std::string file = folder.file("weights.safetensors");
    std::vector<std::string> news;
};

TEST_F(StartValues, AreThoseOfTheFile) {
    write_safetensors(file, {{"fc.weight", {{2, 3}, counted(6)}}, {"fc.bias", {{2}, {7, 8}}}});
    const Graph graph = start(line, {3});
    EXPECT_EQ(values(graph, "fc.weight"), counted(6));
    EXPECT_EQ(values(graph, "fc.bias"), (std::vector<float>{7, 8}));
    EXPECT_THAT(news, testing::ElementsAre(HasSubstr("2 of 2 tensors")));
}

TEST_F(StartValues, APrefixThatIsTheNetworksOwnStays) {
    const auto build = [](const ModelInput& input) {
        GraphBuilder net("line", input.shape);
        return net.finish(net.append(make_linear({.features = 2}), {net.input()}, "model.fc"));
    };
    for (const char* wrapper : {"", "module."}) {
        const std::string prefix = std::string(wrapper) + "model.fc.";
        write_safetensors(
            file, {{prefix + "weight", {{2, 3}, counted(6)}}, {prefix + "bias", {{2}, {7, 8}}}});
        EXPECT_EQ(values(start(build, {3}), "model.fc.weight"), counted(6)) << wrapper;
    }
}

TEST_F(StartValues, APartialLoadSaysWhatIsMissingAndWhatIsLeft) {
    write_safetensors(
        file, {{"module.fc.weight", {{2, 3}, counted(6)}}, {"module.head.weight", {{1}, {0}}}});
    const Graph graph = start(line, {3});
    EXPECT_EQ(values(graph, "fc.weight"), counted(6)) << "without the prefix of a wrapper";
    EXPECT_THAT(news, Contains(HasSubstr("so drawn: fc.bias")));
    EXPECT_THAT(news, Contains(HasSubstr("not of this network: head.weight")));
}

TEST_F(StartValues, AnLstmOfPyTorchHasTwoBiases) {
    write_safetensors(file, {{"rnn.weight_ih_l0", {{4, 2}, counted(8)}},
                             {"rnn.weight_hh_l0", {{4, 1}, counted(4)}},
                             {"rnn.bias_ih_l0", {{4}, counted(4)}},
                             {"rnn.bias_hh_l0", {{4}, counted(4, 10)}}});
    const Graph graph = start(recurrent, {5, 2});
    EXPECT_EQ(values(graph, "rnn.weight_input"), counted(8));
    EXPECT_EQ(values(graph, "rnn.weight_hidden"), counted(4));
    EXPECT_EQ(values(graph, "rnn.bias"), (std::vector<float>{10, 12, 14, 16}));
}

TEST_F(StartValues, AnotherShapeIsRefusedByName) {
    write_safetensors(file, {{"fc.weight", {{3, 2}, counted(6)}}});
    EXPECT_THAT([&] { start(line, {3}); },
                ThrowsMessage<FileError>(testing::AllOf(HasSubstr("fc.weight"),
                                                        HasSubstr("expected [2,3], got [3,2]"))));
}

TEST_F(StartValues, AFileOfAnotherNetworkIsRefused) {
    write_safetensors(file, {{"stem.weight", {{1}, {1}}}});
    EXPECT_THAT([&] { start(line, {3}); },
                ThrowsMessage<FileError>(HasSubstr("no tensor has the name")));
}

TEST_F(StartValues, DamagedFilesAreRefused) {
    const std::map<std::string, Tensor> tensors{{"fc.weight", {{2, 3}, counted(6)}}};
    const auto refused = [&](const std::function<void(nlohmann::json&)>& change,
                             const std::string& complaint) {
        write_safetensors(file, tensors, change);
        EXPECT_THAT([&] { start(line, {3}); }, ThrowsMessage<FileError>(testing::AllOf(
                                                   HasSubstr(file), HasSubstr(complaint))));
    };
    refused(
        [](auto& h) {
            h["fc.weight"]["dtype"] = "F16";
            h["fc.weight"]["shape"] = {2, 6};
        },
        "expected F32, got F16");
    refused([](auto& h) { h["fc.weight"]["data_offsets"] = {0, 20}; }, "do not fit the shape");
    refused([](auto& h) { h["fc.weight"]["data_offsets"] = {8, 32}; }, "lie outside");
    refused([](auto& h) { h["fc.weight"]["shape"] = {std::int64_t{1} << 40, 3}; }, "larger than");
    refused([](auto& h) { h["fc.weight"].erase("shape"); }, "not a whole safetensors file");
    for (const std::uintmax_t length : {0, 5, 40, 100}) {
        write_safetensors(file, tensors);
        std::filesystem::resize_file(file, length);
        EXPECT_THAT([&] { start(line, {3}); },
                    ThrowsMessage<FileError>(HasSubstr("not a whole safetensors file")));
    }
    file = folder.file("weights.bin");
    EXPECT_THROW(start(line, {3}), UsageError);
}

/// What the format forbids. (The package safetensors lets a name come twice.)
TEST_F(StartValues, SafetensorsAreCoveredOnceByTheirTensors) {
    const std::map<std::string, Tensor> tensors{{"fc.bias", {{2}, {7, 8}}},
                                                {"fc.weight", {{2, 3}, counted(6)}}};
    const auto refused = [&](const std::string& complaint) {
        EXPECT_THAT([&] { start(line, {3}); },
                    ThrowsMessage<FileError>(testing::AllOf(
                        HasSubstr("not a whole safetensors file"), HasSubstr(complaint))));
    };
    write_safetensors(file, tensors);
    EXPECT_EQ(values(start(line, {3}), "fc.bias"), (std::vector<float>{7, 8}));
    std::ofstream(file, std::ios::binary | std::ios::app) << "more";
    refused("no tensor covers its last 4 bytes");
    write_safetensors(file, tensors, [](auto& h) { h.erase("fc.bias"); });
    refused("no tensor covers its bytes 0 to 7, before fc.weight");
    write_safetensors(file, tensors, [](auto& h) { h["fc.weight"]["data_offsets"] = {0, 24}; });
    refused("overlaps");
    write_safetensors(file, tensors, [](auto& h) { h["fc.weight"]["shape"] = {2.0, 3.0}; });
    refused("no whole number");
    write_safetensors(file, tensors, [](auto& h) { h["fc.bias"]["data_offsets"] = {0, 8, 8}; });
    refused("begin and end");
    write_safetensors(file, tensors, [](auto& h) {
        h["steps"] = {{"dtype", "I64"}, {"shape", {2}}, {"data_offsets", {32, 32}}};
    });
    refused("the bytes of steps lie outside of it or do not fit the shape");
    const std::string twice = R"({"fc.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                              R"("fc.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    const std::uint64_t length = twice.size();
    std::ofstream(file, std::ios::binary)
            .write(reinterpret_cast<const char*>(&length), sizeof length)
        << twice << "12345678";
    refused("has fc.bias twice");
}

TEST_F(StartValues, ANetworkThatDoesNotKnowEveryTokenIsRefused) {
    const auto build = [](const ModelInput& input) {
        GraphBuilder net("few", TokenInput{.positions = 3, .vocabulary = 5});
        const Value rows = net.embedding(net.input(), {.features = 2});
        return net.finish(net.linear(rows, {.features = input.classes}));
    };
    const auto make = [&](std::int64_t tokens) {
        return make_graph({.model = "few", .build = build},
                          {.shape = {3}, .classes = tokens, .tokens = true});
    };
    EXPECT_EQ(make(5).vocabulary(), 5);
    EXPECT_THAT([&] { (void)make(6); },
                ThrowsMessage<ShapeError>(testing::AllOf(HasSubstr("expected 6 different tokens"),
                                                         HasSubstr("got 5 different tokens"))));
}

TEST_F(StartValues, AModelFileIsReadToo) {
    write_safetensors(file, {{"fc.weight", {{2, 3}, counted(6)}}, {"fc.bias", {{2}, {7, 8}}}});
    const Graph graph = start(line, {3});
    std::vector<float> parameters(static_cast<std::size_t>(graph.parameters().total()));
    graph.initialise(1, parameters, {});
    Hdf5Thread hdf5;
    const std::string model = folder.file("model.h5");
    write_model({model, false, FolderRule::kOwn},
                {.graph = graph,
                 .sample_shape = {3},
                 .classes = 2,
                 .mean = {0, 0, 0},
                 .std = {1, 1, 1},
                 .parameters = parameters},
                hdf5);
    file = model;
    EXPECT_EQ(values(start(line, {3}), "fc.weight"), counted(6));
    EXPECT_EQ(read_model(model, hdf5).graph.name(), "line");
}

}  // namespace
}  // namespace cohort
