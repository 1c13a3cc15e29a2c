#include "data/networks/model_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/networks/network.hpp"
#include "core/units.hpp"
#include "data/hdf5/store.hpp"
#include "data/networks/named_tensors.hpp"
#include "data/networks/onnx/onnx_import.hpp"

namespace cohort {
namespace {

const StoreFormat kModelFormat{"cohort-model", 3};
constexpr const char* kNetwork = "/network";
/// In place of the kind of tokens, when the data set had no vocabulary.
constexpr std::string_view kNoVocabulary = "numbers";

void put_tensors(StoreWriter& writer, const std::string& group, const FlatLayout& layout,
                 const std::vector<float>& flat) {
    for (const FlatRange& range : layout.ranges()) {
        const auto values = std::span<const float>(flat).subspan(
            static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.size));
        writer.put(group + range.name, values, range.shape.extents());
    }
}

std::vector<float> get_tensors(const StoreReader& reader, const std::string& group,
                               const FlatLayout& layout) {
    for (const FlatRange& range : layout.ranges()) {  // before memory is allocated for them
        const auto found = reader.shape(group + range.name);
        if (!std::ranges::equal(found, range.shape.extents())) {
            fail<FileError>({.where = reader.path() + group + range.name,
                             .what = "the tensor does not fit the model",
                             .expected = to_string(range.shape),
                             .got = format_shape(found)});
        }
    }
    std::vector<float> flat(static_cast<std::size_t>(layout.total()), 0.0F);
    for (const FlatRange& range : layout.ranges()) {
        reader.read_into(group + range.name,
                         std::span<float>(flat).subspan(static_cast<std::size_t>(range.offset),
                                                        static_cast<std::size_t>(range.size)));
    }
    return flat;
}

std::vector<float> get_per_channel(const StoreReader& reader, const std::string& name,
                                   const ModelFile& model) {
    std::vector<float> values = reader.get<float>(name);
    const bool none = model.sample_shape.empty() || model.tokens;
    const std::int64_t channels = none ? 0 : model.sample_shape.front();
    if (static_cast<std::int64_t>(values.size()) != channels) {
        fail<FileError>({.where = reader.path() + name,
                         .what = "the normalisation does not fit the samples",
                         .expected = std::to_string(channels) + " channels",
                         .got = std::to_string(values.size())});
    }
    return values;
}

/// Of a regression.
void get_target_scales(const StoreReader& reader, ModelFile& model) {
    model.target_mean = reader.get<float>("/target_mean");
    model.target_std = reader.get<float>("/target_std");
    const auto targets = reader.attribute<std::int64_t>("/", "targets");
    for (const auto* const values : {&model.target_mean, &model.target_std}) {
        if (targets < 1 || values->size() != static_cast<std::size_t>(targets)) {
            fail<FileError>({.where = reader.path(),
                             .what = "means or deviations do not fit the targets",
                             .expected = fmt::format("{}", targets),
                             .got = fmt::format("{}", values->size())});
        }
    }
}

std::string get_text(const StoreReader& reader, const char* name) {
    std::string text;
    for (const std::byte byte : reader.get<std::byte>(name)) {
        text += static_cast<char>(byte);
    }
    return text;
}

Graph get_network(const StoreReader& reader) {
    return read_network(get_text(reader, kNetwork), reader.path() + kNetwork);
}

/// The network takes the samples that the file names.
void require_network(const ModelFile& model, const std::string& path) {
    const Graph& graph = model.graph;
    const bool regression = graph.loss() == LossKind::kMeanSquaredError;
    const auto text = [](const std::string& shape, bool targets, std::int64_t outputs) {
        return fmt::format("{}, {} {}", shape, outputs, targets ? "targets" : "classes");
    };
    const std::int64_t outputs = model.targets() > 0 ? model.targets() : model.classes;
    if (!std::ranges::equal(graph.input_shape().extents(), model.sample_shape) ||
        graph.reads_tokens() != model.tokens || regression != (model.targets() > 0) ||
        graph.classes() != outputs) {
        fail<FileError>(
            {.where = path + kNetwork,
             .what = "the network does not take the file's samples",
             .expected = text(format_shape(model.sample_shape), model.targets() > 0, outputs),
             .got = text(to_string(graph.input_shape()), regression, graph.classes())});
    }
}

/// Of a model of tokens.
std::shared_ptr<const Vocabulary> get_vocabulary(const StoreReader& reader) {
    const auto word = reader.attribute<std::string>("/", "tokens");
    if (word == kNoVocabulary) {
        return nullptr;
    }
    const auto found = std::ranges::find(kWords<TokenKind>, word);
    if (found == kWords<TokenKind>.end()) {
        fail<FileError>({.where = reader.path() + "@tokens",
                         .what = "an unknown kind of tokens",
                         .expected = fmt::format("{}, or {}", fmt::join(kWords<TokenKind>, ", "),
                                                 kNoVocabulary),
                         .got = word});
    }
    Vocabulary vocabulary{.kind = static_cast<TokenKind>(found - kWords<TokenKind>.begin())};
    vocabulary.text = get_text(reader, "/vocabulary");
    return std::make_shared<const Vocabulary>(std::move(vocabulary));
}

/// Of a model of text: one number, the tokens that it sees, no more than `cohort import` takes.
void require_window(const std::vector<std::int64_t>& shape, const std::string& path) {
    constexpr std::int64_t kMostTokens = 1 << 20;
    if (shape.size() != 1 || shape[0] < 1 || shape[0] > kMostTokens) {
        fail<FileError>({.where = path + "/sample_shape",
                         .what = "unusable window of tokens",
                         .expected = "[T], T from 1 to " + std::to_string(kMostTokens),
                         .got = format_shape(shape)});
    }
}

/// Of an ONNX file; each may be missing with its deviations.
void require_scales(const ModelFile& model, const std::string& path) {
    const auto require = [&](const char* of, std::size_t means, std::size_t deviations,
                             std::int64_t wanted) {
        const bool none = means == 0 && deviations == 0;
        if (!none && (means != deviations || std::cmp_not_equal(means, wanted))) {
            fail<FileError>({.where = path,
                             .what = fmt::format("means or deviations do not fit the {}", of),
                             .expected = fmt::format("{} of each, or none", wanted),
                             .got = fmt::format("{} and {}", means, deviations)});
        }
    };
    require("samples", model.mean.size(), model.std.size(),
            model.tokens ? 0 : model.sample_shape.front());
    require("targets", model.target_mean.size(), model.target_std.size(), model.graph.classes());
}

}  // namespace

void write_model(const OutputFile& file, const ModelFile& model, Hdf5Thread& thread) {
    const std::string network = network_text(model.graph);
    StoreWriter writer(file, kModelFormat, thread);
    writer.set("/", "model", model.graph.name());
    writer.put(kNetwork, std::as_bytes(std::span(network)));
    if (model.targets() > 0) {
        writer.set("/", "targets", model.targets());
        writer.put("/target_mean", model.target_mean);
        writer.put("/target_std", model.target_std);
    } else {
        writer.set("/", "classes", model.classes);
    }
    writer.put("/sample_shape", model.sample_shape);
    writer.put("/mean", model.mean);
    writer.put("/std", model.std);
    if (model.tokens) {
        writer.set("/", "tokens",
                   std::string(model.vocabulary ? word_of(model.vocabulary->kind) : kNoVocabulary));
    }
    if (model.vocabulary) {
        writer.put("/vocabulary", std::as_bytes(std::span(model.vocabulary->text)));
    }
    put_tensors(writer, "/parameters/", model.graph.parameters(), model.parameters);
    put_tensors(writer, "/state/", model.graph.state(), model.state);
    writer.commit();
}

ModelFile read_model(const std::string& path, Hdf5Thread& thread) {
    const StoreReader reader(path, thread);
    reader.require_format(kModelFormat);
    ModelFile model;
    if (reader.has_attribute("/", "targets")) {
        get_target_scales(reader, model);
    } else {
        model.classes = reader.attribute<std::int64_t>("/", "classes");
    }
    model.sample_shape = reader.get<std::int64_t>("/sample_shape");
    model.tokens = reader.has_attribute("/", "tokens");
    if (model.tokens) {
        require_window(model.sample_shape, path);
        model.vocabulary = get_vocabulary(reader);
    }
    model.mean = get_per_channel(reader, "/mean", model);
    model.std = get_per_channel(reader, "/std", model);
    model.graph = get_network(reader);
    require_network(model, path);
    model.parameters = get_tensors(reader, "/parameters/", model.graph.parameters());
    model.state = get_tensors(reader, "/state/", model.graph.state());
    return model;
}

ModelFile read_trained(const std::string& path, Hdf5Thread& thread) {
    if (!path.ends_with(".onnx")) {
        return read_model(path, thread);
    }
    OnnxNetwork network = read_onnx(path);
    const ModelInput input = input_of(network.graph);
    const auto extents = input.shape.extents();
    ModelFile model{.graph = std::move(network.graph),
                    .sample_shape = {extents.begin(), extents.end()},
                    .classes = input.classes,
                    .tokens = input.tokens,
                    .mean = std::move(network.mean),
                    .std = std::move(network.std),
                    .target_mean = std::move(network.target_mean),
                    .target_std = std::move(network.target_std)};
    if (model.targets() > 0) {
        model.classes = 0;
        model.graph = model.graph.with_loss(LossKind::kMeanSquaredError);
    }
    require_scales(model, path);
    model.parameters.resize(static_cast<std::size_t>(model.graph.parameters().total()));
    model.state.resize(static_cast<std::size_t>(model.graph.state().total()));
    model.graph.initialise(0, model.parameters, model.state);
    return model;
}

NamedTensors read_model_tensors(const std::string& path, const Vocabulary* vocabulary) {
    Hdf5Thread thread;
    const ModelFile model = read_model(path, thread);
    if (vocabulary != nullptr && model.vocabulary &&
        (model.vocabulary->kind != vocabulary->kind ||
         model.vocabulary->text != vocabulary->text)) {
        fail<FileError>({.where = path,
                         .what = "the weights are of a model with another vocabulary than the text",
                         .expected = "the one that the model was trained with",
                         .got = fmt::format("another of {} tokens", model.classes),
                         .hint = "weights of a model of this data set"});
    }
    NamedTensors tensors;
    const auto take = [&](const FlatLayout& layout, const std::vector<float>& flat) {
        for (const FlatRange& range : layout.ranges()) {
            const auto extents = range.shape.extents();
            const auto first = flat.begin() + range.offset;
            tensors.emplace(range.name, FileTensor{.shape = {extents.begin(), extents.end()},
                                                   .values = {first, first + range.size}});
        }
    };
    take(model.graph.parameters(), model.parameters);
    take(model.graph.state(), model.state);
    return tensors;
}

}  // namespace cohort
