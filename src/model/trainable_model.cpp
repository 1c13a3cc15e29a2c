#include "cohort/model/trainable_model.hpp"

#include <cmath>
#include <utility>
#include <vector>

namespace cohort {

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
    if (device_.kind() == DeviceKind::kCpu) {
        cohort::fold_batch_statistics(state(), batch_state(), a, fraction);
        return;
    }
    // A few floats per channel: not worth a kernel.
    const std::size_t bytes = state_.bytes();
    if (host_state_.bytes() < 2 * bytes) {
        host_state_ = device_.allocate_host(2 * bytes);
    }
    const std::span<float> running(host_state_.floats(), bytes / sizeof(float));
    const std::span<float> batch(running.data() + running.size(), running.size());
    stream_->copy(running.data(), state_.data(), bytes);
    stream_->copy(batch.data(), batch_state_.data(), bytes);
    stream_->synchronize();
    cohort::fold_batch_statistics(running, batch, a, fraction);
    stream_->copy(state_.data(), running.data(), bytes);
    stream_->synchronize();
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
    const auto step = static_cast<float>(1.0 - std::pow(1.0 - a, fraction));
    for (std::size_t i = 0; i < state.size(); ++i) {
        state[i] += step * (batch_state[i] - state[i]);
    }
}

}  // namespace cohort
