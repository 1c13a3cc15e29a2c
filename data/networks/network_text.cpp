// Networks as JSON. Layers are described as they were added to the builder, none fused: adding them
// again in this order gives the same network.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <source_location>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/networks/network.hpp"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNetworkFormat = "cohort-network";
constexpr int kNetworkVersion = 1;
constexpr const char* kLosses[] = {"cross_entropy", "squared_error"};  // of LossKind

/// What layers call a value; the network's input is "".
std::map<int, std::string> names_of_values(const Graph& graph) {
    std::map<int, std::string> names{{0, ""}};
    for (const Graph::Node& layer : graph.layers()) {
        names[layer.output] = layer.name;
    }
    return names;
}

/// The embedding whose table a tied layer uses.
const std::string& owner_of(const Graph& graph, int range) {
    for (const Graph::Node& layer : graph.layers()) {
        if (!layer.parameter_ranges.empty() && layer.parameter_ranges.front() == range) {
            return layer.name;
        }
    }
    broken_invariant("a tied layer follows the owner of its table",
                     std::source_location::current());
}

Json json_of(const Graph& graph, const Graph::Node& layer,
             const std::map<int, std::string>& names) {
    Json json{{"name", layer.name}, {"kind", layer.layer->kind()}};
    for (const int input : layer.inputs) {
        json["inputs"].push_back(names.at(input));
    }
    if (layer.tied) {
        json["tied"] = owner_of(graph, layer.parameter_ranges.front());
    }
    for (const auto& [name, values] : layer.layer->attributes()) {
        json["attributes"][name] = values.size() == 1 ? Json(values.front()) : Json(values);
    }
    return json;
}

LayerAttributes read_attributes(const Json& json) {
    LayerAttributes attributes;
    for (const auto& [name, values] : json.items()) {
        attributes[name] = values.is_array() ? values.get<std::vector<double>>()
                                             : std::vector{values.get<double>()};
    }
    return attributes;
}

[[noreturn]] void refuse_network(const std::string& where, const std::string& what) {
    fail<FileError>({.where = where,
                     .what = "the description of the network is damaged: " + what,
                     .hint = "the file of another run"});
}

class NetworkReader {
public:
    NetworkReader(const Json& json, GraphBuilder& net) : json_(json), net_(net) {}

    Graph read() {
        for (const Json& layer : json_.at("layers")) {
            add(layer);
        }
        const Value output = value(json_.at("output").get<std::string>());
        const auto loss = json_.at("loss").get<std::string>();
        if (std::ranges::count(kLosses, loss) == 0) {
            fail<UsageError>({.where = loss, .what = "no loss of this name is known"});
        }
        return loss == kLosses[0] ? net_.finish(output) : net_.finish_regression(output);
    }

private:
    [[nodiscard]] Value value(const std::string& name) const {
        const auto found = values_.find(name);
        if (found == values_.end()) {
            fail<UsageError>({.where = name, .what = "no layer of this name comes before"});
        }
        return found->second;
    }

    void add(const Json& layer) {
        const auto name = layer.at("name").get<std::string>();
        const auto kind = layer.at("kind").get<std::string>();
        std::vector<Value> inputs;
        for (const Json& input : layer.at("inputs")) {
            inputs.push_back(value(input.get<std::string>()));
        }
        if (name.empty() || inputs.empty() || values_.contains(name)) {
            fail<UsageError>({.where = name, .what = "a layer without a name of its own or input"});
        }
        if (layer.contains("tied")) {
            values_[name] =
                net_.linear_tied(inputs.front(), value(layer.at("tied").get<std::string>()), name);
            return;
        }
        LayerAttributes attributes;
        if (layer.contains("attributes")) {
            attributes = read_attributes(layer.at("attributes"));
        }
        values_[name] = net_.append(make_layer(kind, attributes), inputs, name);
    }

    const Json& json_;
    GraphBuilder& net_;
    std::map<std::string, Value> values_{{"", Value{0}}};
};

/// Of a network without layers, which something else computes.
Json tensors_of(const FlatLayout& layout) {
    Json json = Json::array();
    for (const FlatRange& range : layout.ranges()) {
        json.push_back({range.name, range.shape.extents()});
    }
    return json;
}

Json parse_network(std::string_view text, const std::string& where) {
    Json json = Json::parse(text, nullptr, false);
    if (!json.is_object() || !json.contains("format") || json["format"] != kNetworkFormat) {
        refuse_network(where, "it is no JSON of a network");
    }
    if (!json.contains("version") || json["version"] != kNetworkVersion) {
        fail<FileError>({.where = where,
                         .what = "the network is described in another version of the format",
                         .expected = std::to_string(kNetworkVersion),
                         .got = json.contains("version") ? json["version"].dump() : "none"});
    }
    if (!json.contains("layers") || !json["layers"].is_array()) {
        refuse_network(where, "it has no list of layers");
    }
    return json;
}

}  // namespace

std::string network_text(const Graph& graph) {
    const std::map<int, std::string> names = names_of_values(graph);
    Json json{{"format", kNetworkFormat}, {"version", kNetworkVersion}, {"name", graph.name()}};
    json["input"] = graph.input_shape().extents();
    if (graph.reads_tokens()) {
        json["vocabulary"] = graph.vocabulary();
    }
    json["layers"] = Json::array();
    for (const Graph::Node& layer : graph.layers()) {
        json["layers"].push_back(json_of(graph, layer, names));
    }
    if (graph.layers().empty()) {
        json["parameters"] = tensors_of(graph.parameters());
        json["state"] = tensors_of(graph.state());
    }
    json["output"] = names.at(graph.logits().index);
    json["loss"] = kLosses[static_cast<int>(graph.loss())];
    // Names of files may be no UTF-8.
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Graph read_network(std::string_view text, const std::string& where) {
    const Json json = parse_network(text, where);
    if (json.contains("parameters")) {
        fail<FileError>({.where = where,
                         .what = "the program that trained this network also computes it",
                         .hint =
                             "evaluating it in Python, after cohort.torch.load(module, file), or "
                             "with the arrays of cohort.load_model(file)"});
    }
    try {
        const auto name = json.at("name").get<std::string>();
        const auto extents = json.at("input").get<std::vector<std::int64_t>>();
        const Shape input(extents);
        const std::int64_t vocabulary = json.value("vocabulary", std::int64_t{0});
        GraphBuilder net = vocabulary > 0
                               ? GraphBuilder(name, TokenInput{.positions = input.elements(),
                                                               .vocabulary = vocabulary})
                               : GraphBuilder(name, input);
        return NetworkReader(json, net).read();
    } catch (const Json::exception& error) {
        refuse_network(where, error.what());
    } catch (const Error& error) {
        refuse_network(where, error.what());
    }
}

std::string network_difference(std::string_view text, std::string_view other,
                               const std::string& where) {
    if (text == other) {
        return "";
    }
    const Json first = parse_network(text, where);
    const Json second = parse_network(other, where);
    const Json& layers = first.at("layers");
    const Json& others = second.at("layers");
    for (std::size_t i = 0; i < std::min(layers.size(), others.size()); ++i) {
        if (layers[i] != others[i]) {
            return fmt::format("layer {}: {} and {}", i + 1, layers[i].dump(), others[i].dump());
        }
    }
    if (layers.size() != others.size()) {
        return fmt::format("{} and {} layers", layers.size(), others.size());
    }
    for (const char* part : {"input", "vocabulary", "parameters", "state", "output", "loss"}) {
        if (first.value(part, Json()) != second.value(part, Json())) {
            return fmt::format("{}: {} and {}", part, first.value(part, Json()).dump(),
                               second.value(part, Json()).dump());
        }
    }
    return "";
}

}  // namespace cohort
