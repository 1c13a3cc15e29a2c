#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "cohort/core/error.hpp"
#include "data/networks/named_tensors.hpp"

namespace cohort {
namespace {

/// Whether a tensor has a name of the network, by itself or as PyTorch calls it.
bool knows_any(const Graph& graph, const NamedTensors& tensors) {
    const auto renamed = names_of_pytorch(graph);
    const auto theirs = [&](const std::string& name) {
        return std::ranges::any_of(renamed,
                                   [&](const auto& one) { return one.second.name == name; });
    };
    return std::ranges::any_of(tensors, [&](const auto& tensor) {
        return graph.parameters().find(tensor.first) != nullptr ||
               graph.state().find(tensor.first) != nullptr || theirs(tensor.first);
    });
}

/// Takes prefixes off that wrappers of modules put before all names, while none is known.
NamedTensors without_prefix(const Graph& graph, NamedTensors tensors) {
    for (const std::string_view prefix : {"_orig_mod.", "module.", "model."}) {
        const bool all = std::ranges::all_of(
            tensors, [&](const auto& tensor) { return tensor.first.starts_with(prefix); });
        if (!all || knows_any(graph, tensors)) {
            continue;
        }
        NamedTensors renamed;
        for (auto& [name, tensor] : tensors) {
            renamed.emplace(name.substr(prefix.size()), std::move(tensor));
        }
        tensors = std::move(renamed);
    }
    return tensors;
}

/// Gives the tensors of LSTM layers the names that they have here; two biases are added.
void rename_from_pytorch(const Graph& graph, NamedTensors& tensors) {
    for (const auto& [name, theirs] : names_of_pytorch(graph)) {
        auto node = tensors.extract(theirs.name);
        if (!node) {
            continue;
        }
        node.key() = name;
        std::vector<float>& values = node.mapped().values;
        const auto second = tensors.extract(theirs.second);
        if (second && second.mapped().values.size() == values.size()) {
            std::ranges::transform(values, second.mapped().values, values.begin(), std::plus<>());
        }
        tensors.insert(std::move(node));
    }
}

std::string some_of(const std::vector<std::string>& names) {
    constexpr std::size_t kMost = 8;
    const auto shown = std::min(names.size(), kMost);
    return fmt::format("{}{}",
                       fmt::join(names.begin(), names.begin() + static_cast<long>(shown), ", "),
                       names.size() > shown ? ", ..." : "");
}

}  // namespace

std::map<std::string, PytorchName> names_of_pytorch(const Graph& graph) {
    std::map<std::string, PytorchName> names;
    for (const Graph::Node& layer : graph.layers()) {
        if (layer.layer->kind() != "lstm") {
            continue;
        }
        const std::size_t at = layer.name.rfind(".l");
        const bool numbered =
            at != std::string::npos && at + 2 < layer.name.size() &&
            layer.name.find_first_not_of("0123456789", at + 2) == std::string::npos;
        const std::string module = numbered ? layer.name.substr(0, at) : layer.name;
        const std::string number = numbered ? layer.name.substr(at + 1) : "l0";
        const auto name = [&](const char* tensor) {
            return fmt::format("{}.{}_{}", module, tensor, number);
        };
        names[layer.name + ".weight_input"] = {name("weight_ih"), ""};
        names[layer.name + ".weight_hidden"] = {name("weight_hh"), ""};
        names[layer.name + ".bias"] = {name("bias_ih"), name("bias_hh")};
    }
    return names;
}

void start_from_tensors(Graph& graph, NamedTensors tensors, const std::string& where,
                        std::vector<std::string>* news) {
    tensors = without_prefix(graph, std::move(tensors));
    rename_from_pytorch(graph, tensors);
    std::map<std::string, std::vector<float>> values;
    std::vector<std::string> drawn;
    for (const FlatLayout* layout : {&graph.parameters(), &graph.state()}) {
        for (const FlatRange& range : layout->ranges()) {
            auto node = tensors.extract(range.name);
            if (!node) {
                drawn.push_back(range.name);
                continue;
            }
            if (!std::ranges::equal(node.mapped().shape, range.shape.extents())) {
                fail<FileError>({.where = where,
                                 .what = "tensor " + range.name + " does not fit the network",
                                 .expected = to_string(range.shape),
                                 .got = fmt::format("[{}]", fmt::join(node.mapped().shape, ",")),
                                 .hint = "the weights of the same network, or a file without it"});
            }
            values.emplace(range.name, std::move(node.mapped().values));
        }
    }
    if (values.empty()) {
        fail<FileError>({.where = where,
                         .what = "no tensor has the name of one of the network",
                         .expected = some_of(drawn),
                         .got = tensors.empty() ? "no tensors" : tensors.begin()->first + ", ..."});
    }
    if (news != nullptr) {
        news->push_back(fmt::format("{} of {} tensors start from {}", values.size(),
                                    values.size() + drawn.size(), where));
        if (!drawn.empty()) {
            news->push_back(fmt::format("not in {}, so drawn: {}", where, some_of(drawn)));
        }
        std::vector<std::string> left;
        for (const auto& [name, tensor] : tensors) {
            left.push_back(name);
        }
        if (!left.empty()) {
            news->push_back(
                fmt::format("in {}, and not of this network: {}", where, some_of(left)));
        }
    }
    graph.start_from(std::move(values));
}

}  // namespace cohort
