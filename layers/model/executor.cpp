#include "layers/model/executor.hpp"

#include <algorithm>
#include <utility>

namespace cohort {

CompiledGraph::CompiledGraph(const ExecutorSetting& setting)
    : graph(setting.graph),
      training(setting.training),
      formats(static_cast<std::size_t>(graph.values())),
      wants_gradient(static_cast<std::size_t>(graph.values()), char{0}) {
    formats[0] = graph.reads_tokens() ? TensorFormat{graph.input_shape(), 1, ElementType::kI32}
                 : setting.support == nullptr ? TensorFormat{graph.input_shape(), 1}
                                              : setting.support->input_format(graph.input_shape());
    const KernelContext common{.device = setting.device,
                               .stream = setting.stream,
                               .inputs = {},
                               .training = training,
                               .deterministic = setting.deterministic,
                               .input_gradient = false,
                               .tuning = setting.tuning,
                               .precision = setting.precision,
                               .support = setting.support};
    for (const Graph::Node& node : graph.nodes()) {
        KernelContext context = common;
        for (const int input : node.inputs) {
            context.inputs.push_back(formats[static_cast<std::size_t>(input)]);
            context.input_gradient |= wants_gradient[static_cast<std::size_t>(input)] != 0;
        }
        const bool fusible = setting.fuses_loss && training && &node == &graph.nodes().back() &&
                             graph.loss() == LossKind::kSoftmaxCrossEntropy;
        auto fused = fusible ? node.layer->compile_with_loss(context) : nullptr;
        if (fused != nullptr) {
            fused_node = static_cast<int>(kernels.size());
        }
        kernels.push_back(fused == nullptr ? node.layer->compile(context) : std::move(fused));
        const auto output = static_cast<std::size_t>(node.output);
        formats[output] = kernels.back()->traits().output;
        wants_gradient[output] =
            context.input_gradient || !node.parameter_ranges.empty() ? char{1} : char{0};
    }
    KernelContext of_loss = common;
    of_loss.inputs.push_back(formats[static_cast<std::size_t>(graph.logits().index)]);
    loss = make_loss(graph.loss(), of_loss, graph.shape(graph.logits()));
}

bool draws_by_ids(const Graph& graph) {
    return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                       [](const Graph::Node& node) { return node.layer->kind() == "dropout"; });
}

void Arena::reserve(std::size_t bytes) {
    if (buffer_.bytes() < bytes) {
        buffer_ = Buffer();  // free first: the peak must not hold both
        buffer_ = device_.allocate(bytes);
    }
}

std::uint64_t Arena::room() const {
    const std::uint64_t free = device_.memory().free_bytes;
    const std::uint64_t sum = free + buffer_.bytes();
    return sum < free ? free : sum;
}

void LayerTimes::add_to(std::vector<LayerProfile>& profile) const {
    for (std::size_t node = 0; node < times_.size(); ++node) {
        profile[node].forward_s += times_[node].forward_s;
        profile[node].backward_s += times_[node].backward_s;
    }
}

namespace {

/// Another node with the same first parameter comes later, so that its backward pass runs first.
bool shared_with_later(const Graph& graph, std::size_t index) {
    const std::vector<Graph::Node>& nodes = graph.nodes();
    const std::vector<int>& ranges = nodes[index].parameter_ranges;
    return !ranges.empty() &&
           std::any_of(nodes.begin() + static_cast<std::ptrdiff_t>(index) + 1, nodes.end(),
                       [&](const Graph::Node& later) {
                           return later.tied && later.parameter_ranges.front() == ranges.front();
                       });
}

}  // namespace

void bind_kernels(CompiledGraph& compiled, const FlatBuffers& buffers) {
    const Graph& graph = compiled.graph;
    const std::vector<char> adds = nodes_that_add(compiled);
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
        const Graph::Node& node = graph.nodes()[i];
        KernelBinding binding{.adds = shared_with_later(graph, i),
                              .adds_input_gradient = adds[i] != 0};
        for (const int range : node.parameter_ranges) {
            const auto at = graph.parameters().ranges()[static_cast<std::size_t>(range)].offset;
            binding.parameters.push_back(buffers.parameters + at);
            binding.gradients.push_back(buffers.gradients + at);
        }
        for (const int range : node.state_ranges) {
            const auto at = graph.state().ranges()[static_cast<std::size_t>(range)].offset;
            binding.state.push_back(buffers.state + at);
            binding.batch_state.push_back(buffers.batch_state + at);
        }
        compiled.kernels[i]->bind(binding);
    }
}

void announce_gradients(const Graph& graph, int node, StepObserver& observer) {
    const Graph::Node& done = graph.nodes()[static_cast<std::size_t>(node)];
    for (const int index : done.parameter_ranges) {
        if (done.tied && index == done.parameter_ranges.front()) {
            continue;  // the node that it belongs to adds to it and announces it
        }
        const FlatRange& range = graph.parameters().ranges()[static_cast<std::size_t>(index)];
        observer.gradient_ready(range.offset, range.offset + range.size);
    }
}

}  // namespace cohort
