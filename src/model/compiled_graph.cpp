#include "execution_plan.hpp"

namespace cohort {

CompiledGraph::CompiledGraph(const Graph& source, Device& device, Stream& stream, bool for_training,
                             bool deterministic, TuningCache* tuning)
    : graph(source),
      training(for_training),
      formats(static_cast<std::size_t>(source.values())),
      wants_gradient(static_cast<std::size_t>(source.values()), char{0}) {
    formats[0] = {graph.input_shape(), 1};
    for (const Graph::Node& node : graph.nodes()) {
        KernelContext context{.device = device,
                              .stream = stream,
                              .inputs = {},
                              .training = training,
                              .deterministic = deterministic,
                              .input_gradient = false,
                              .tuning = tuning};
        for (const int input : node.inputs) {
            context.inputs.push_back(formats[static_cast<std::size_t>(input)]);
            context.input_gradient |= wants_gradient[static_cast<std::size_t>(input)] != 0;
        }
        kernels.push_back(node.layer->compile(context));
        const auto output = static_cast<std::size_t>(node.output);
        formats[output] = kernels.back()->traits().output;
        wants_gradient[output] =
            context.input_gradient || !node.parameter_ranges.empty() ? char{1} : char{0};
    }
    loss = make_loss(graph.loss(),
                     {.device = device, .stream = stream, .inputs = {}, .tuning = tuning},
                     graph.classes());
}

std::size_t CompiledGraph::sample_bytes(int value) const {
    return formats[static_cast<std::size_t>(value)].sample_bytes();
}

bool CompiledGraph::wants_gradient_of(int value) const {
    return wants_gradient[static_cast<std::size_t>(value)] != 0;
}

}  // namespace cohort
