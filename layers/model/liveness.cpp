#include "layers/model/liveness.hpp"

namespace cohort {

Liveness::Liveness(const CompiledGraph& compiled, const ExecutionOrder& order)
    : activations(static_cast<std::size_t>(compiled.graph.values())),
      gradients(activations.size()),
      saved(compiled.graph.nodes().size()),
      forward(saved.size()),
      backward(saved.size()),
      compiled_(compiled),
      order_(order) {
    for (std::size_t value = 0; value < activations.size(); ++value) {
        const std::size_t bytes = compiled.sample_bytes(static_cast<int>(value));
        activations[value].sample_bytes = bytes;
        gradients[value].sample_bytes = bytes;
    }
    int at = 0;
    for (const Segment& segment : order.segments) {
        for (const PlannedStep& planned : segment.steps) {
            touch(planned, at++);
            segment_of.push_back(static_cast<int>(&segment - order.segments.data()));
        }
    }
}

Life& Liveness::activation(int value) {
    return activations[static_cast<std::size_t>(
        order_.activation_storage[static_cast<std::size_t>(value)])];
}

Life& Liveness::gradient(int value) {
    return gradients[static_cast<std::size_t>(
        order_.gradient_storage[static_cast<std::size_t>(value)])];
}

void Liveness::touch(const PlannedStep& planned, int at) {
    const Step& step = planned.step;
    if (step.kind == StepKind::kLoss) {
        activation(compiled_.graph.logits().index).touch(at);
        if (compiled_.training) {
            gradient(compiled_.graph.logits().index).touch(at);
        }
        return;
    }
    const auto index = static_cast<std::size_t>(step.node);
    const Graph::Node& node = compiled_.graph.nodes()[index];
    const KernelTraits& t = compiled_.kernels[index]->traits();
    const bool is_forward = step.kind == StepKind::kForward;
    (is_forward ? forward : backward)[index].touch(at);
    saved[index].sample_bytes = t.saved_bytes;
    saved[index].touch(at);
    if (!t.is_view && (is_forward || t.backward_reads_inputs)) {
        for (const int input : node.inputs) {
            activation(input).touch(at);
        }
    }
    if (is_forward ? step.last_pass : t.backward_reads_output) {
        activation(node.output).touch(at);
    }
    if (!is_forward) {
        touch_gradients(planned, node.output, at);
    }
}

void Liveness::touch_gradients(const PlannedStep& planned, int output, int at) {
    gradient(output).touch(at);
    for (const GradientWrite& write : planned.writes) {
        gradient(write.value).touch(at);
    }
    for (const GradientAddition& addition : planned.additions) {
        gradient(addition.to_value).touch(at);
    }
}

void request_tensors(const Liveness& liveness, const ExecutionOrder& order, TensorPlaces& places,
                     const RequestPlace& request) {
    const std::size_t values = liveness.activations.size();
    places.activations.resize(values);
    places.gradients.resize(values);
    places.saved.resize(liveness.saved.size());
    for (std::size_t value = 0; value < values; ++value) {
        if (order.activation_storage[value] == static_cast<int>(value)) {
            request(liveness.activations[value], places.activations[value]);
        }
        if (order.gradient_storage[value] == static_cast<int>(value)) {
            request(liveness.gradients[value], places.gradients[value]);
        }
    }
    for (std::size_t node = 0; node < liveness.saved.size(); ++node) {
        request(liveness.saved[node], places.saved[node]);
    }
}

void request_additions(const CompiledGraph& compiled, std::vector<PlannedStep>& steps, int first,
                       const RequestPlace& request) {
    int at = first;
    for (PlannedStep& planned : steps) {
        for (GradientWrite& write : planned.writes) {
            if (write.needs_scratch()) {
                request({at, at, compiled.sample_bytes(write.value)}, write.scratch);
            }
        }
        ++at;
    }
}

std::size_t place_requests(const std::vector<Request>& requests, std::size_t alignment) {
    std::vector<ArenaRequest> plain;
    for (const Request& request : requests) {
        plain.push_back(request.arena);
    }
    const ArenaPlan planned = plan_arena(plain, alignment);
    for (std::size_t i = 0; i < requests.size(); ++i) {
        *requests[i].offset = planned.offsets[i];
    }
    return planned.total_bytes;
}

void share_places(const std::vector<int>& storage, std::vector<Place>& places) {
    for (std::size_t value = 0; value < places.size(); ++value) {
        places[value] = places[static_cast<std::size_t>(storage[value])];
    }
}

}  // namespace cohort
