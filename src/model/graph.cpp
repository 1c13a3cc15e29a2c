#include "cohort/model/graph.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/units.hpp"

namespace cohort {

std::int64_t Graph::classes() const noexcept {
    return shapes_[static_cast<std::size_t>(logits_.index)].elements();
}

namespace {

std::vector<Shape> input_shapes(const Graph& graph, const Graph::Node& node) {
    std::vector<Shape> shapes;
    for (const int input : node.inputs) {
        shapes.push_back(graph.shape(Value{input}));
    }
    return shapes;
}

}  // namespace

std::string Graph::describe() const {
    std::string text;
    for (const Node& node : nodes_) {
        std::int64_t count = 0;
        for (const int range : node.parameter_ranges) {
            count += parameters_.ranges()[static_cast<std::size_t>(range)].size;
        }
        text += fmt::format("{:<28} {:<20} {:<14} {:>12}\n", node.name, node.layer->kind(),
                            to_string(shape(Value{node.output})),
                            count > 0 ? format_count(static_cast<std::uint64_t>(count)) : "");
    }
    return text + fmt::format("{:<28} {:<20} {:<14} {:>12}\n", "total", "", "",
                              format_count(static_cast<std::uint64_t>(parameters_.elements())));
}

double Graph::training_flops_per_sample() const {
    double flops = 0;
    std::vector<char> trained(shapes_.size(), char{0});  // depends on a parameter
    for (const Node& node : nodes_) {
        // Backward of a layer with weights costs two products of the forward's size, one where
        // the input needs no gradient.
        const bool deep = std::any_of(node.inputs.begin(), node.inputs.end(), [&](int input) {
            return trained[static_cast<std::size_t>(input)] != 0;
        });
        flops += (deep ? 3 : 2) * node.layer->forward_flops(input_shapes(*this, node));
        trained[static_cast<std::size_t>(node.output)] =
            deep || !node.parameter_ranges.empty() ? char{1} : char{0};
    }
    return flops;
}

}  // namespace cohort
