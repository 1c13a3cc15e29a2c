#include "model/executor.hpp"

namespace cohort {

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

void bind_kernels(CompiledGraph& compiled, const FlatBuffers& buffers) {
    const Graph& graph = compiled.graph;
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
        const Graph::Node& node = graph.nodes()[i];
        KernelBinding binding;
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
    for (const int index : graph.nodes()[static_cast<std::size_t>(node)].parameter_ranges) {
        const FlatRange& range = graph.parameters().ranges()[static_cast<std::size_t>(index)];
        observer.gradient_ready(range.offset, range.offset + range.size);
    }
}

}  // namespace cohort
