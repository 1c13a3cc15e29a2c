#include "cohort/model/trainable_model.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include "cohort/layers/kernel.hpp"

namespace cohort {
namespace {

float folding_step(double a, double fraction) {
    return static_cast<float>(1.0 - std::pow(1.0 - a, fraction));
}

}  // namespace

TrainableModel::TrainableModel(Graph graph, Device& device)
    : graph_(std::move(graph)),
      device_(device),
      stream_(device.create_stream()),
      parameters_(zeroed(graph_.parameters())),
      gradients_(zeroed(graph_.parameters())),
      state_(zeroed(graph_.state())),
      batch_state_(zeroed(graph_.state())) {
}

Buffer TrainableModel::zeroed(const FlatLayout& layout) {
    const auto bytes = static_cast<std::size_t>(layout.total()) * sizeof(float);
    Buffer buffer = device_.allocate(bytes);
    stream_->fill_zero(buffer.data(), bytes);
    return buffer;
}

void TrainableModel::fold_batch_statistics(double a, double fraction) {
    fold_into(device_, *stream_, state_.floats(), batch_state_.floats(),
              static_cast<std::int64_t>(state().size()), folding_step(a, fraction));
}

void TrainableModel::initialise(std::uint64_t seed) {
    std::vector<float> first_parameters(parameters().size());
    std::vector<float> first_state(state().size());
    graph_.initialise(seed, first_parameters, first_state);
    stream_->copy(parameters_.data(), first_parameters.data(), parameters_.bytes());
    stream_->copy(state_.data(), first_state.data(), state_.bytes());
    stream_->synchronize();
}

void fold_batch_statistics(std::span<float> state, std::span<const float> batch_state, double a,
                           double fraction) {
    const float step = folding_step(a, fraction);
    for (std::size_t i = 0; i < state.size(); ++i) {
        state[i] += step * (batch_state[i] - state[i]);
    }
}

}  // namespace cohort
