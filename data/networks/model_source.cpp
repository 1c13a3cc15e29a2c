#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/networks/network.hpp"
#include "core/suggestion.hpp"
#include "core/units.hpp"
#include "data/networks/named_tensors.hpp"
#include "data/networks/onnx/onnx_import.hpp"

namespace cohort {
namespace {

constexpr std::string_view kOnnxEnding = ".onnx";
constexpr std::string_view kSafetensorsEnding = ".safetensors";
constexpr std::string_view kModelEnding = ".h5";

/// Errors: ShapeError unless the network takes such samples, knows every token, and has an output
/// for every class.
void check_fit(const Graph& graph, const ModelInput& input) {
    const std::int64_t positions = input.tokens ? input.shape.elements() : 1;
    const bool regression = graph.loss() == LossKind::kMeanSquaredError;
    const bool outputs_fit =
        regression == (input.targets > 0) &&
        (regression ? graph.classes() == input.targets : graph.classes() >= input.classes);
    const bool tokens_fit = graph.reads_tokens() == input.tokens &&
                            (!input.tokens || graph.vocabulary() >= input.classes);
    const auto text = [](const Shape& shape, std::int64_t vocabulary, std::int64_t labels,
                         bool targets, std::int64_t outputs) {
        return fmt::format(
            "{} of shape {} with {}",
            vocabulary > 0 ? fmt::format("{} different tokens", vocabulary) : "numbers",
            to_string(shape),
            targets ? counted(outputs, "target")
                    : fmt::format("{} of {} classes", counted(labels, "label"), outputs));
    };
    if (graph.input_shape() != input.shape || !tokens_fit || graph.positions() != positions ||
        !outputs_fit) {
        fail<ShapeError>(
            {.where = graph.name(),
             .what = "the network does not fit the samples",
             .expected = text(input.shape, input.tokens ? input.classes : 0, positions,
                              input.targets > 0, input.targets > 0 ? input.targets : input.classes),
             .got = text(graph.input_shape(), graph.vocabulary(), graph.positions(), regression,
                         graph.classes()),
             .hint = "samples of the shape that the network was made for"});
    }
}

bool is_onnx(const ModelSource& source) {
    return !source.build && source.model.ends_with(kOnnxEnding);
}

Graph built(const ModelSource& source, const ModelInput& input) {
    check_source(source);
    if (source.build) {
        return source.build(input);
    }
    if (!is_onnx(source)) {
        return make_model(source.model, input);
    }
    Graph graph = read_onnx(source.model).graph;
    return input.targets > 0 ? graph.with_loss(LossKind::kMeanSquaredError) : graph;
}

void read_start(Graph& graph, const std::string& file, const Vocabulary* vocabulary,
                std::vector<std::string>* news) {
    if (file.ends_with(kSafetensorsEnding)) {
        start_from_tensors(graph, read_safetensors(file), file, news);
    } else if (file.ends_with(kModelEnding)) {
        start_from_tensors(graph, read_model_tensors(file, vocabulary), file, news);
    } else {
        fail<UsageError>(
            {.where = "--init",
             .what = "not the name of a file of weights",
             .expected = fmt::format("FILE{} or FILE{}", kModelEnding, kSafetensorsEnding),
             .got = file});
    }
}

}  // namespace

void check_source(const ModelSource& source) {
    if (!source.build && !is_model(source.model) && !is_onnx(source)) {
        fail<UsageError>({.where = "--model",
                          .what = "unknown model",
                          .expected = fmt::format("{}, gpt:WIDTH,DEPTH,HEADS, FILE{}",
                                                  fmt::join(model_names(), ", "), kOnnxEnding),
                          .got = quoted_with_guess(source.model, model_names())});
    }
}

ModelInput usual_input(const ModelSource& source, const ModelInput& numbers) {
    if (is_onnx(source)) {
        return input_of(read_onnx(source.model).graph);
    }
    if (!source.build && reads_text(source.model)) {
        return {.shape = {35}, .classes = 28782, .tokens = true};
    }
    return numbers;
}

Graph make_graph(const ModelSource& source, const ModelInput& input, std::vector<std::string>* news,
                 const Vocabulary* vocabulary) {
    Graph graph = built(source, input);
    check_fit(graph, input);
    if (!source.init.empty()) {
        read_start(graph, source.init, vocabulary, news);
    }
    return graph;
}

}  // namespace cohort
