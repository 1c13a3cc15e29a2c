#include "data/networks/onnx/onnx_builder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/units.hpp"
#include "data/networks/onnx/onnx_import.hpp"

namespace cohort {
namespace {

/// The only input that is no weight.
const onnx::ValueInfo& declared_input(const OnnxFile& file) {
    std::vector<const onnx::ValueInfo*> inputs;
    for (const onnx::ValueInfo& input : file.graph().input()) {
        if (!file.weights.contains(input.name())) {
            inputs.push_back(&input);
        }
    }
    if (inputs.size() != 1 || file.graph().output_size() != 1) {
        fail<FileError>({.where = file.path,
                         .what = "a network is trained from one input to one output",
                         .expected = "1 and 1",
                         .got = fmt::format("{} and {}", inputs.size(), file.graph().output_size()),
                         .hint = "exporting it without its other inputs and outputs"});
    }
    return *inputs.front();
}

/// Extents of a sample. Errors: FileError for axes that are not fixed.
std::vector<std::int64_t> sample_extents(const OnnxFile& file) {
    const onnx::ValueInfo& input = declared_input(file);
    const auto& dims = input.type().tensor_type().shape().dim();
    std::vector<std::int64_t> extents;
    for (int axis = 1; axis < dims.size(); ++axis) {
        if (dims[axis].dim_value() <= 0) {
            fail<FileError>(
                {.where = file.path,
                 .what = fmt::format("axis {} of input {} is dynamic", axis, input.name()),
                 .expected = "fixed axes, but for the batch (axis 0)",
                 .got = dims[axis].dim_param().empty() ? "no extent" : dims[axis].dim_param(),
                 .hint = "exporting the network with only the batch dynamic"});
        }
        extents.push_back(dims[axis].dim_value());
    }
    if (extents.empty() || extents.size() > 3) {
        fail<FileError>({.where = file.path,
                         .what = "input " + input.name() + " has an unusable shape",
                         .expected = "[N,F], [N,T,F] or [N,C,H,W], or tokens [N,T]",
                         .got = fmt::format("{} axes", dims.size())});
    }
    return extents;
}

/// Rows of the table that the input's tokens choose from.
std::int64_t vocabulary_of(const OnnxFile& file) {
    std::set<std::string> tokens{declared_input(file).name()};
    for (const onnx::Node& node : file.graph().node()) {
        const bool same = node.op_type() == "Cast" || node.op_type() == "Identity";
        if (same && tokens.contains(node.input(0))) {
            tokens.insert(node.output(0));
        }
        if (node.op_type() == "Gather" && node.input_size() == 2 &&
            tokens.contains(node.input(1))) {
            const auto table = file.weights.find(node.input(0));
            if (table != file.weights.end() && table->second.shape.size() == 2) {
                return table->second.shape[0];
            }
        }
    }
    fail<FileError>({.where = file.path,
                     .what = "the input is whole numbers that no embedding reads",
                     .expected = "numbers (float32), or tokens for an embedding"});
}

GraphBuilder make_net(const OnnxFile& file) {
    const std::string name = std::filesystem::path(file.path).stem().string();
    const std::vector<std::int64_t> extents = sample_extents(file);
    const int type = declared_input(file).type().tensor_type().elem_type();
    if (type == kOnnxInt64 || type == kOnnxInt32) {
        return {name, TokenInput{.positions = Shape(extents).elements(),
                                 .vocabulary = vocabulary_of(file)}};
    }
    if (type != kOnnxFloat) {
        fail<FileError>({.where = file.path,
                         .what = "the input has another type than networks here take",
                         .expected = "float32, or whole numbers as tokens",
                         .got = fmt::format("type {} of ONNX", type)});
    }
    return {name, Shape(extents)};
}

/// Exporters multiply batch norms into the weights before them, for inference. Errors: FileError
/// when one has.
void check_not_folded(const OnnxFile& file) {
    const bool in_old_exporter = std::ranges::any_of(file.weights, [](const auto& weight) {
        return weight.first.starts_with("onnx::Conv_") || weight.first.ends_with(".weight_bias");
    });
    const auto count = std::ranges::count_if(file.graph().node(), holds_batch_norm);
    if (in_old_exporter || count > 0) {
        fail<FileError>(
            {.where = file.path,
             .what = "the exporter has multiplied batch norms into the weights before them, for "
                     "inference",
             .expected = "a network as it is trained",
             .got =
                 count > 0 ? fmt::format("{} without its batch norm", counted(count, "layer")) : "",
             .hint = "torch.onnx.export(model, (sample,), \"FILE.onnx\", optimize=False), or with "
                     "dynamo=False: do_constant_folding=False, "
                     "training=torch.onnx.TrainingMode.TRAINING"});
    }
}

/// Of the weight of a node: the parameter where the file says it, since equal tensors may be stored
/// once, else the tensor.
std::string identity_of(const onnx::Node& node, const OnnxTensor& weight) {
    const std::string parameter = onnx_weight_parameter(node);
    return parameter.empty() ? weight.origin : "parameter " + parameter;
}

/// Of an entry of the metadata; none: empty. Errors: FileError.
std::vector<float> numbers_of(const OnnxFile& file, const char* key, bool positive) {
    std::vector<float> numbers;
    for (const onnx::Entry& entry : file.model.metadata_props()) {
        if (entry.key() != key) {
            continue;
        }
        std::string_view rest = entry.value();
        while (!rest.empty()) {
            float number = 0;
            const auto [end, error] =
                std::from_chars(rest.data(), rest.data() + rest.size(), number);
            if (error != std::errc() || !std::isfinite(number) || (positive && number <= 0)) {
                fail<FileError>({.where = file.path,
                                 .what = fmt::format("unusable metadata {}", key),
                                 .expected = positive ? "numbers above 0" : "finite numbers",
                                 .got = entry.value()});
            }
            numbers.push_back(number);
            rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
            rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
        }
    }
    return numbers;
}

}  // namespace

OnnxBuilder::OnnxBuilder(OnnxFile file) : file_(std::move(file)), net_(make_net(file_)) {
    check_not_folded(file_);
    for (const onnx::Node& node : file_.graph().node()) {
        for (const std::string& input : node.input()) {
            readers_[input].push_back(&node);
        }
    }
    const onnx::ValueInfo& input = declared_input(file_);
    values_[input.name()] = {.value = net_.input()};
    const auto& dims = input.type().tensor_type().shape().dim();
    batch_ = dims.empty() ? 0 : dims[0].dim_value();
    constants_ = std::move(file_.weights);
}

Graph OnnxBuilder::build() {
    std::vector<std::string> refusals;
    for (const onnx::Node& node : file_.graph().node()) {
        try {
            add(node);
        } catch (const OnnxRefusal& refusal) {
            refusals.push_back(fmt::format("{} {}: {}", node.op_type(), node.name(), refusal.text));
        } catch (const Error& error) {
            refusals.push_back(fmt::format("{} {}: {}", node.op_type(), node.name(), error.what()));
        } catch (const std::out_of_range&) {
            refusals.push_back(
                fmt::format("{} {}: an input or a number is missing", node.op_type(), node.name()));
        }
        for (const std::string& output : node.output()) {
            if (!values_.contains(output) && !constants_.contains(output) &&
                !views_.contains(output)) {
                unknown_.insert(output);
            }
        }
    }
    if (!refusals.empty()) {
        fail<FileError>(
            {.where = file_.path,
             .what = fmt::format("{} of {} nodes cannot be trained:\n  {}", refusals.size(),
                                 file_.graph().node_size(), fmt::join(refusals, "\n  "))});
    }
    return finish();
}

void OnnxBuilder::add(const onnx::Node& node) {
    if (absorbed_.contains(&node)) {
        return;
    }
    if (!node.domain().empty() && node.domain() != "ai.onnx") {
        throw OnnxRefusal{"an operator of " + node.domain()};
    }
    const bool lost = std::ranges::any_of(
        node.input(), [&](const std::string& input) { return unknown_.contains(input); });
    if (lost) {  // that was said at the node which was refused
        constexpr auto kOfAttention = std::to_array<std::string_view>(
            {"Softmax", "Split", "SplitToSequence", "SequenceAt", "Div"});
        const bool step = readers_.contains(node.output(0)) &&
                          std::ranges::find(kOfAttention, node.op_type()) != kOfAttention.end();
        if (!knows_onnx_node(node.op_type()) && !folds_onnx(node.op_type()) && !step) {
            throw OnnxRefusal{std::string(onnx_hint(node.op_type()))};
        }
        return;
    }
    auto folded = fold_onnx(node, constants_,
                            [this](const std::string& name) { return shape_with_batch(name); });
    if (folded) {
        constants_.insert_or_assign(node.output(0), std::move(*folded));
        return;
    }
    add_onnx_layer(*this, node);
}

Graph OnnxBuilder::finish() {
    const auto found = values_.find(file_.graph().output(0).name());
    if (found == values_.end() || found->second.order != OnnxOrder::kBatchFirst) {
        fail<FileError>({.where = file_.path, .what = "the output does not depend on the input"});
    }
    try {
        Graph graph = net_.finish(found->second.value);
        graph.start_from(std::move(start_));
        return graph;
    } catch (const Error& error) {
        fail<FileError>({.where = file_.path,
                         .what = std::string("the network cannot be trained: ") + error.what()});
    }
}

const OnnxValue& OnnxBuilder::any_input(const onnx::Node& node, int index) const {
    const auto found = index < node.input_size() ? values_.find(node.input(index)) : values_.end();
    if (found == values_.end()) {
        throw OnnxRefusal{fmt::format("input {} is a constant, or missing", index)};
    }
    return found->second;
}

Value OnnxBuilder::input(const onnx::Node& node, int index) const {
    const OnnxValue& found = any_input(node, index);
    if (found.order != OnnxOrder::kBatchFirst) {
        throw OnnxRefusal{"positions before the batch; only recurrent layers take them so"};
    }
    return found.value;
}

const OnnxTensor* OnnxBuilder::constant(const onnx::Node& node, int index) const {
    const auto found =
        index < node.input_size() ? constants_.find(node.input(index)) : constants_.end();
    return found == constants_.end() ? nullptr : &found->second;
}

const OnnxTensor* OnnxBuilder::optional_constant(const onnx::Node& node, int index) const {
    const bool given = index < node.input_size() && !node.input(index).empty();
    return given ? &weight(node, index) : nullptr;
}

const OnnxTensor& OnnxBuilder::weight(const onnx::Node& node, int index) const {
    const OnnxTensor* found = constant(node, index);
    if (found == nullptr || found->whole()) {
        throw OnnxRefusal{fmt::format("input {} is no weight", index)};
    }
    return *found;
}

const onnx::Node* OnnxBuilder::only_reader(const onnx::Node& node, std::string_view op) const {
    const auto found = readers_.find(node.output(0));
    return found != readers_.end() && found->second.size() == 1 &&
                   found->second.front()->op_type() == op
               ? found->second.front()
               : nullptr;
}

void OnnxBuilder::set_output(const onnx::Node& node, const OnnxValue& value) {
    values_[node.output(0)] = value;
}

const OnnxView* OnnxBuilder::view(const onnx::Node& node, int index) const {
    const auto found = index < node.input_size() ? views_.find(node.input(index)) : views_.end();
    return found == views_.end() ? nullptr : &found->second;
}

void OnnxBuilder::set_view(const onnx::Node& node, int output, const OnnxView& view) {
    views_.insert_or_assign(node.output(output), view);
}

bool OnnxBuilder::is_batch(std::int64_t extent) const {
    return extent == OnnxTensor::kBatch || extent == -1 || (batch_ > 0 && extent == batch_);
}

std::vector<std::int64_t> OnnxBuilder::shape_with_batch(const std::string& name) const {
    const std::int64_t batch = batch_ > 0 ? batch_ : OnnxTensor::kBatch;
    if (const auto step = views_.find(name); step != views_.end()) {
        return onnx_shape_of(*this, step->second, batch);
    }
    const auto found = values_.find(name);
    if (found == values_.end()) {
        throw OnnxRefusal{"the shape of a value that is not known"};
    }
    const auto sample = net_.shape(found->second.value).extents();
    std::vector<std::int64_t> shape(sample.begin(), sample.end());
    switch (found->second.order) {
        case OnnxOrder::kBatchFirst: shape.insert(shape.begin(), batch); break;
        case OnnxOrder::kTimeFirst: shape.insert(shape.begin() + 1, batch); break;
        case OnnxOrder::kTimeDirections: shape.insert(shape.begin() + 1, {1, batch}); break;
    }
    return shape;
}

std::string OnnxBuilder::layer_name(const onnx::Node& node, const OnnxTensor& weight) {
    std::string name = weight.origin;
    for (const std::string_view ending : {".weight", ".weight_input"}) {
        name = name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : name;
    }
    constexpr std::string_view kRecurrent = ".weight_ih_";  // of layer K of a module: "rnn.lK"
    if (const auto at = name.rfind(kRecurrent); at != std::string::npos) {
        name = name.substr(0, at) + "." + name.substr(at + kRecurrent.size());
    }
    if (const std::string module = onnx_module(node); !module.empty()) {
        name = module;
    }
    if (name.empty() || name == "weight") {
        name = node.name().empty() ? node.op_type() : node.name();
    }
    std::ranges::replace(name, '/', '.');  // files of weights have folders
    name.erase(0, name.find_first_not_of('.'));
    const std::string identity = identity_of(node, weight);
    const bool again = !identity.empty() && !taken_.insert("weights " + identity).second;
    if (again || !taken_.insert("layer " + name).second) {
        throw OnnxRefusal{fmt::format(
            "two layers share the weights {} (an exporter may also have stored equal ones once)",
            weight.origin.empty() ? name : weight.origin)};
    }
    return name;
}

Value OnnxBuilder::add_layer(std::shared_ptr<const Layer> layer, Value input,
                             const onnx::Node& node, const OnnxTensor& weight,
                             const std::map<std::string, const std::vector<float>*>& values) {
    const std::string name = layer_name(node, weight);
    const bool embedding = layer->kind() == "embedding";
    const Value output = net_.append(std::move(layer), {input}, name);
    if (embedding) {
        embeddings_[identity_of(node, weight)] = output;
        embeddings_[weight.origin] = output;
    }
    for (const auto& [tensor, numbers] : values) {
        if (numbers != nullptr) {
            start_.emplace(fmt::format("{}.{}", name, tensor), *numbers);
        }
    }
    return output;
}

std::optional<Value> OnnxBuilder::add_tied(Value input, const onnx::Node& node,
                                           const OnnxTensor& table) {
    const std::string identity = identity_of(node, table);
    const auto found = embeddings_.find(identity);
    return identity.empty() || found == embeddings_.end()
               ? std::nullopt
               : std::optional(net_.linear_tied(input, found->second));
}

OnnxNetwork read_onnx(const std::string& path) {
    OnnxFile file = read_onnx_file(path);
    OnnxNetwork network{.mean = numbers_of(file, kOnnxMean, false),
                        .std = numbers_of(file, kOnnxStd, true),
                        .target_mean = numbers_of(file, kOnnxTargetMean, false),
                        .target_std = numbers_of(file, kOnnxTargetStd, true)};
    network.graph = OnnxBuilder(std::move(file)).build();
    return network;
}

ModelInput input_of(const Graph& graph) {
    return {
        .shape = graph.input_shape(), .classes = graph.classes(), .tokens = graph.reads_tokens()};
}

}  // namespace cohort
