#include "support/layers/reference_network.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort::test {
namespace {

/// Mean softmax cross entropy over samples and positions; fills the result and returns the gradient
/// of the logits.
ReferenceTensor softmax_cross_entropy(const ReferenceTensor& logits,
                                      const std::vector<std::int32_t>& labels,
                                      ReferenceResult& result) {
    const auto classes = static_cast<std::size_t>(logits.shape[logits.shape.rank() - 1]);
    const double positions =
        static_cast<double>(labels.size()) / static_cast<double>(logits.samples);
    ReferenceTensor gradient(logits.samples, logits.shape);
    for (std::size_t n = 0; n < labels.size(); ++n) {
        const double* z = logits.values.data() + n * classes;
        double* g = gradient.values.data() + n * classes;
        const auto label = static_cast<std::size_t>(labels[n]);
        const double* best = std::max_element(z, z + classes);
        double total = 0;
        for (std::size_t c = 0; c < classes; ++c) {
            total += std::exp(z[c] - *best);
        }
        result.loss_sum += (std::log(total) + *best - z[label]) / positions;
        result.correct += best == z + label ? 1 : 0;
        for (std::size_t c = 0; c < classes; ++c) {
            g[c] = (std::exp(z[c] - *best) / total - (c == label ? 1 : 0)) /
                   static_cast<double>(labels.size());
        }
    }
    result.correct /= positions;
    return gradient;
}

/// Mean squared error over outputs and samples; the sum counts samples.
ReferenceTensor squared_error(const ReferenceTensor& outputs, const std::vector<double>& targets,
                              ReferenceResult& result) {
    ReferenceTensor gradient(outputs.samples, outputs.shape);
    const auto count = static_cast<double>(outputs.shape.elements());
    for (std::size_t i = 0; i < targets.size(); ++i) {
        const double error = outputs.values[i] - targets[i];
        result.loss_sum += error * error / count;
        gradient.values[i] = 2 * error / static_cast<double>(targets.size());
    }
    return gradient;
}

/// Addresses of a layer's ranges in a flat buffer.
template <class T>
std::vector<T*> addresses(const FlatLayout& layout, const std::string& node,
                          const std::vector<std::string>& names, T* flat) {
    std::vector<T*> found;
    for (const std::string& name : names) {
        const FlatRange* range = layout.find(node + "." + name);
        check_invariant(range != nullptr, "a range is called by layer and tensor");
        found.push_back(flat + range->offset);
    }
    return found;
}

void round_all(const ReferenceBatch& batch, std::vector<double>& values) {
    for (double& value : values) {
        value = batch.rounded == nullptr ? value : batch.rounded(value);
    }
}

/// The weights of products are read in the short type, biases and batch norms as they are.
std::vector<double> parameters_read(const Graph& graph, const ReferenceBatch& batch,
                                    std::vector<double> parameters) {
    for (const FlatRange& range : graph.parameters().ranges()) {
        for (std::int64_t i = 0; batch.rounded != nullptr && range.decay && i < range.size; ++i) {
            double& value = parameters[static_cast<std::size_t>(range.offset + i)];
            value = batch.rounded(value);
        }
    }
    return parameters;
}

}  // namespace

void ReferenceNetwork::append(const std::string& name, ReferenceMade layer, std::vector<int> inputs,
                              const Shape& output) {
    nodes_.push_back({name, std::move(layer), std::move(inputs), output});
}

bool same_sides(const ReferenceResult& a, const ReferenceResult& b) {
    return std::ranges::equal(a.kinks, b.kinks, {}, &ReferenceKink::side, &ReferenceKink::side);
}

/// One pass over a batch, forward and back.
class ReferenceNetwork::Run {
public:
    Run(const std::vector<Node>& nodes, const Graph& graph, const std::vector<double>& parameters,
        const std::vector<double>& state, const ReferenceBatch& batch, bool training)
        : nodes_(nodes),
          graph_(graph),
          parameters_(parameters_read(graph, batch, parameters)),
          state_(state),
          batch_(batch),
          training_(training),
          values_{batch.samples} {
        result.gradients.assign(static_cast<std::size_t>(graph.parameters().total()), 0.0);
        result.batch_state.assign(static_cast<std::size_t>(graph.state().total()), 0.0);
        round_all(batch, values_.front().values);
        values_.reserve(nodes.size() + 1);
        for (const Node& node : nodes) {
            const std::size_t before = result.kinks.size();
            values_.push_back(
                node.layer->forward(scope_of(node), constant(inputs_of(node, values_))));
            round_all(batch, values_.back().values);
            check_invariant(values_.back().shape == node.output,
                            "reference and network agree on shape");
            for (std::size_t i = before; i < result.kinks.size(); ++i) {
                result.kinks[i].value = node.inputs.front();
            }
        }
        result.logits = values_.back().values;
        for (const ReferenceTensor& value : values_) {
            gradients.emplace_back(value.samples, value.shape);
        }
        result.input_gradient = gradients.front().values;
    }

    void set_loss() {
        gradients.back() = graph_.loss() == LossKind::kMeanSquaredError
                               ? squared_error(values_.back(), batch_.targets, result)
                               : softmax_cross_entropy(values_.back(), batch_.labels, result);
    }
    void backward() {
        for (std::size_t i = nodes_.size(); i-- > 0;) {
            round_all(batch_, gradients[i + 1].values);
            nodes_[i].layer->backward(scope_of(nodes_[i]), constant(inputs_of(nodes_[i], values_)),
                                      gradients[i + 1], inputs_of(nodes_[i], gradients));
        }
        result.input_gradient = gradients.front().values;
    }

    ReferenceResult result;
    std::vector<ReferenceTensor> gradients;  ///< of the values; zero until something is set

private:
    [[nodiscard]] ReferenceScope scope_of(const Node& node) {
        const std::vector<std::string> parameters = node.layer->parameters();
        const std::vector<std::string> state = node.layer->state();
        const auto& layout = graph_.parameters();
        return {
            .training = training_,
            .seed = batch_.seed,
            .epoch = batch_.epoch,
            .sample_ids = batch_.ids.data(),
            .parameters =
                addresses<const double>(layout, node.name, parameters, parameters_.data()),
            .gradients = addresses(layout, node.name, parameters, result.gradients.data()),
            .state = addresses(graph_.state(), node.name, state, state_.data()),
            .batch_state = addresses(graph_.state(), node.name, state, result.batch_state.data()),
            .kinks = batch_.notes_kinks ? &result.kinks : nullptr};
    }
    [[nodiscard]] static std::vector<ReferenceTensor*> inputs_of(
        const Node& node, std::vector<ReferenceTensor>& tensors) {
        std::vector<ReferenceTensor*> found;
        for (const int input : node.inputs) {
            found.push_back(&tensors[static_cast<std::size_t>(input)]);
        }
        return found;
    }
    [[nodiscard]] static std::vector<const ReferenceTensor*> constant(
        const std::vector<ReferenceTensor*>& tensors) {
        return {tensors.begin(), tensors.end()};
    }

    const std::vector<Node>& nodes_;
    const Graph& graph_;
    std::vector<double> parameters_;
    const std::vector<double>& state_;
    const ReferenceBatch& batch_;
    bool training_;
    std::vector<ReferenceTensor> values_;
};

ReferenceResult ReferenceNetwork::run(const Graph& graph, const std::vector<double>& parameters,
                                      const std::vector<double>& state, const ReferenceBatch& batch,
                                      bool training) const {
    Run run(nodes_, graph, parameters, state, batch, training);
    run.set_loss();
    if (training) {
        run.backward();
    }
    return std::move(run.result);
}

ReferenceResult ReferenceNetwork::run_towards(
    const Graph& graph, const std::vector<double>& parameters, const std::vector<double>& state,
    const ReferenceBatch& batch,
    const std::function<std::vector<Pull>(const ReferenceResult&)>& pulls) const {
    Run run(nodes_, graph, parameters, state, batch, true);
    const std::vector<Pull> asked = pulls(run.result);
    for (const Pull& pull : asked) {
        run.gradients[static_cast<std::size_t>(pull.value)].values[pull.element] += pull.slope;
    }
    if (!asked.empty()) {
        run.backward();
    }
    return std::move(run.result);
}

Value TwinBuilder::note(const std::string& kind, Value value, ReferenceMade layer,
                        const std::vector<Value>& inputs, const std::string& owner) {
    std::vector<int> indices;
    for (const Value input : inputs) {
        indices.push_back(input.index);
    }
    const std::string base = (scope_.empty() ? "" : scope_ + ".") + kind;
    const std::string name = base + std::to_string(++made_[base]);
    reference_.append(owner.empty() ? name : owner, std::move(layer), std::move(indices),
                      net_.shape(value));
    check_invariant(value.index == ++layers_, "values are numbered in the order of the calls");
    return value;
}

Value TwinBuilder::linear_tied(Value x, Value embedding, const std::string& owner) {
    const Value y = net_.linear_tied(x, embedding);
    return note("linear", y, reference_linear({.features = net_.shape(y)[1], .bias = false}), {x},
                owner);
}

Value TwinBuilder::activation(Value x, ActivationKind kind) {
    switch (kind) {
        case ActivationKind::kRelu:
            return note("relu", net_.relu(x), reference_activation(kind), {x});
        case ActivationKind::kRelu6:
            return note("relu6", net_.relu6(x), reference_activation(kind), {x});
        case ActivationKind::kGelu:
            return note("gelu", net_.gelu(x), reference_activation(kind), {x});
        case ActivationKind::kSigmoid:
            return note("sigmoid", net_.sigmoid(x), reference_activation(kind), {x});
        case ActivationKind::kTanh:
            return note("tanh", net_.tanh(x), reference_activation(kind), {x});
    }
    return x;
}

Value TwinBuilder::pool(Value x, PoolKind kind, const PoolOptions& o) {
    switch (kind) {
        case PoolKind::kMax:
            return note("max_pool", net_.max_pool(x, o), reference_pool(kind, o), {x});
        case PoolKind::kAverage:
            return note("average_pool", net_.average_pool(x, o), reference_pool(kind, o), {x});
        case PoolKind::kGlobalAverage:
            return note("global_average_pool", net_.global_average_pool(x), reference_pool(kind, o),
                        {x});
    }
    return x;
}

Twin TwinBuilder::finish_linear(Value x, std::int64_t classes) {
    return finish(linear(flatten(x), {.features = classes}));
}

}  // namespace cohort::test
