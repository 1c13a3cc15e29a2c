#include <algorithm>

#include "model/execution_plan.hpp"
#include "model/executor.hpp"

namespace cohort {

CompiledGraph::CompiledGraph(const ExecutorSetting& setting)
    : graph(setting.graph),
      training(setting.training),
      formats(static_cast<std::size_t>(graph.values())),
      wants_gradient(static_cast<std::size_t>(graph.values()), char{0}) {
    formats[0] = setting.support == nullptr ? TensorFormat{graph.input_shape(), 1}
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
        kernels.push_back(node.layer->compile(context));
        const auto output = static_cast<std::size_t>(node.output);
        formats[output] = kernels.back()->traits().output;
        wants_gradient[output] =
            context.input_gradient || !node.parameter_ranges.empty() ? char{1} : char{0};
    }
    KernelContext of_loss = common;
    of_loss.inputs.push_back(formats[static_cast<std::size_t>(graph.logits().index)]);
    loss = make_loss(graph.loss(), of_loss, graph.classes());
}

bool draws_by_ids(const Graph& graph) {
    return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                       [](const Graph::Node& node) { return node.layer->kind() == "dropout"; });
}

}  // namespace cohort
