#include "cohort/model/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "core/units.hpp"

namespace cohort {

std::int64_t Graph::outputs() const noexcept {
    return shapes_[static_cast<std::size_t>(logits_.index)].elements();
}

std::int64_t Graph::positions() const noexcept {
    const Shape& logits = shapes_[static_cast<std::size_t>(logits_.index)];
    return loss_ == LossKind::kSoftmaxCrossEntropy && logits.rank() == 2 ? logits[0] : 1;
}

namespace {

using StartValues = std::map<std::string, std::vector<float>>;

std::vector<Shape> input_shapes(const Graph& graph, const Graph::Node& node) {
    std::vector<Shape> shapes;
    for (const int input : node.inputs) {
        shapes.push_back(graph.shape(Value{input}));
    }
    return shapes;
}

void draw(Initialisation how, const FlatRange& range, Rng rng, float* to) {
    const Shape& shape = range.shape;
    const auto count = static_cast<double>(shape.elements());
    const double outputs = static_cast<double>(shape[0]);
    const double fan_in = count / outputs;
    switch (how) {
        case Initialisation::kZero: std::fill_n(to, range.size, 0.0F); break;
        case Initialisation::kOne: std::fill_n(to, range.size, 1.0F); break;
        case Initialisation::kUniform: {
            const auto limit = static_cast<float>(1.0 / std::sqrt(fan_in));
            std::generate_n(to, range.size,
                            [&] { return limit * (2.0F * rng.next_uniform() - 1.0F); });
            break;
        }
        case Initialisation::kForgetGate: {
            const std::int64_t gate = range.size / 4;
            std::fill_n(to, range.size, 0.0F);
            std::fill_n(to + gate, gate, 1.0F);
            break;
        }
        case Initialisation::kHeNormal: {
            const auto deviation = static_cast<float>(std::sqrt(2.0 / fan_in));
            std::generate_n(to, range.size, [&] { return deviation * rng.next_normal(); });
            break;
        }
    }
}

void draw_all(std::uint64_t seed, const FlatLayout& layout, const std::vector<Initialisation>& how,
              std::uint32_t substream, const StartValues* start, std::span<float> to) {
    check_invariant(static_cast<std::int64_t>(to.size()) == layout.total(),
                    "flat buffer and layout have one size");
    std::fill(to.begin(), to.end(), 0.0F);
    for (std::size_t i = 0; i < how.size(); ++i) {
        const FlatRange& range = layout.ranges()[i];
        if (start != nullptr) {
            if (const auto given = start->find(range.name); given != start->end()) {
                std::ranges::copy(given->second, to.data() + range.offset);
                continue;
            }
        }
        draw(how[i], range, Rng(seed, RngPurpose::kInitialise, i, substream),
             to.data() + range.offset);
    }
}

}  // namespace

Graph Graph::with_loss(LossKind loss) const {
    Graph other = *this;
    other.loss_ = loss;
    return other;
}

std::string describe(const Graph& graph) {
    const auto line = [](std::string_view name, std::string_view kind, const std::string& shape,
                         std::int64_t parameters, double flops) {
        return fmt::format(
            "{:<28} {:<20} {:<14} {:>12} {:>12}\n", name, kind, shape,
            parameters > 0 ? format_count(static_cast<std::uint64_t>(parameters)) : "",
            flops > 0 ? fmt::format("{:.3f}", flops * 1e-6) : "");
    };
    std::string text = fmt::format("{:<28} {:<20} {:<14} {:>12} {:>12}\n", "layer", "kind",
                                   "output", "parameters", "MFLOP");
    for (const Graph::Node& node : graph.nodes()) {
        std::int64_t count = 0;
        for (const int range : node.parameter_ranges) {
            const bool of_another = node.tied && range == node.parameter_ranges.front();
            count +=
                of_another ? 0 : graph.parameters().ranges()[static_cast<std::size_t>(range)].size;
        }
        text += line(node.name, node.layer->kind(), to_string(graph.shape(Value{node.output})),
                     count, node.layer->forward_flops(input_shapes(graph, node)));
    }
    return text +
           line("total", "", "", graph.parameters().elements(), graph.forward_flops_per_sample());
}

double Graph::forward_flops_per_sample() const {
    double flops = 0;
    for (const Node& node : nodes_) {
        flops += node.layer->forward_flops(input_shapes(*this, node));
    }
    return flops;
}

std::vector<NodeFlops> flops_per_sample(const Graph& graph) {
    std::vector<NodeFlops> all;
    std::vector<char> trained(static_cast<std::size_t>(graph.values()),
                              char{0});  // depends on a parameter
    for (const Graph::Node& node : graph.nodes()) {
        // Backward of a layer with weights costs two products of the forward's size, one where
        // the input needs no gradient.
        const bool deep = std::any_of(node.inputs.begin(), node.inputs.end(), [&](int input) {
            return trained[static_cast<std::size_t>(input)] != 0;
        });
        const double forward = node.layer->forward_flops(input_shapes(graph, node));
        all.push_back({.forward = forward, .backward = (deep ? 2 : 1) * forward});
        trained[static_cast<std::size_t>(node.output)] =
            deep || !node.parameter_ranges.empty() ? char{1} : char{0};
    }
    return all;
}

double Graph::training_flops_per_sample() const {
    double flops = 0;
    for (const NodeFlops& node : flops_per_sample(*this)) {
        flops += node.forward + node.backward;
    }
    return flops;
}

void Graph::initialise(std::uint64_t seed, std::span<float> parameters,
                       std::span<float> state) const {
    draw_all(seed, parameters_, initialisations_, 0, start_.get(), parameters);
    draw_all(seed, state_, state_initialisations_, 1, start_.get(), state);
}

void Graph::start_from(std::map<std::string, std::vector<float>> values) {
    for (const auto& [name, numbers] : values) {
        const FlatRange* range = parameters_.find(name);
        range = range == nullptr ? state_.find(name) : range;
        if (range == nullptr || range->size != static_cast<std::int64_t>(numbers.size())) {
            fail<UsageError>(
                {.where = name_ + "." + name,
                 .what = "initial values that do not fit",
                 .expected = range == nullptr ? "a tensor of the network" : to_string(range->shape),
                 .got = std::to_string(numbers.size()) + " numbers"});
        }
    }
    start_ = std::make_shared<const StartValues>(std::move(values));
}

const std::map<std::string, std::vector<float>>* start_values(const Graph& graph) noexcept {
    return graph.start_.get();
}

Graph make_tensor_graph(std::string name, const std::vector<NamedTensor>& parameters,
                        const std::vector<NamedTensor>& state) {
    if (parameters.empty()) {
        fail<UsageError>({.where = name,
                          .what = "has no parameter to train",
                          .expected = "at least one tensor that requires a gradient"});
    }
    Graph graph;
    std::map<std::string, std::vector<float>> values;
    const auto place = [&](const std::vector<NamedTensor>& tensors, FlatLayout& layout,
                           std::vector<Initialisation>& initialisations) {
        for (const NamedTensor& tensor : tensors) {
            layout.add(tensor.name, tensor.shape, true);
            initialisations.push_back(Initialisation::kZero);
            values[tensor.name] = tensor.values;
        }
    };
    place(parameters, graph.parameters_, graph.initialisations_);
    place(state, graph.state_, graph.state_initialisations_);
    graph.name_ = std::move(name);
    graph.shapes_ = {Shape{1}};
    graph.logits_ = Value{0};
    graph.start_from(std::move(values));
    return graph;
}

}  // namespace cohort
