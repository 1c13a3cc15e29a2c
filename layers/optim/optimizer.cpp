#include "cohort/optim/optimizer.hpp"

#include <fmt/format.h>

#include <cmath>

#include "cohort/core/error.hpp"
#include "cohort/optim/learning_options.hpp"
#include "layers/optim/range_optimizer.hpp"

namespace cohort {
namespace {

void check_options(const OptimizerOptions& options) {
    check_decay_rate("momentum", options.momentum);
    check_decay_rate("beta1", options.beta1);
    check_decay_rate("beta2", options.beta2);
    if (!(options.weight_decay >= 0) || !std::isfinite(options.weight_decay)) {
        fail<UsageError>({.where = "optimizer",
                          .what = "weight decay out of range",
                          .expected = "a number >= 0",
                          .got = fmt::format("{}", options.weight_decay)});
    }
    if (!(options.epsilon > 0) || !std::isfinite(options.epsilon)) {
        fail<UsageError>({.where = "optimizer",
                          .what = "epsilon out of range",
                          .expected = "a number > 0",
                          .got = fmt::format("{}", options.epsilon)});
    }
    if (options.nesterov && options.kind != OptimizerKind::kSgd) {
        fail<UsageError>({.where = "optimizer",
                          .what = "Nesterov momentum belongs to sgd",
                          .got = word_of(options.kind)});
    }
}

void check_range(const FlatLayout& layout, std::int64_t begin, std::int64_t end) {
    if (begin < 0 || end < begin || end > layout.total()) {
        fail<ShapeError>({.where = "optimizer",
                          .what = "range outside the parameter buffer",
                          .expected = fmt::format("a part of [0, {})", layout.total()),
                          .got = fmt::format("[{}, {})", begin, end)});
    }
}

}  // namespace

OptimizerOptions optimizer_options(const LearningOptions& options) {
    return {.kind = options.optimizer,
            .momentum = options.momentum,
            .nesterov = options.nesterov,
            .weight_decay = options.weight_decay,
            .decoupled = options.optimizer == OptimizerKind::kAdamW,
            .beta1 = options.beta1,
            .beta2 = options.beta2,
            .epsilon = options.epsilon};
}

double momentum_of(const OptimizerOptions& options) {
    return options.kind == OptimizerKind::kAdamW ? options.beta1 : options.momentum;
}

void Optimizer::update(std::span<float> theta, std::span<const float> gradient, double fraction,
                       double lr) {
    if (static_cast<std::int64_t>(theta.size()) != size() || gradient.size() != theta.size()) {
        fail<ShapeError>({.where = "optimizer",
                          .what = "parameters or gradient of another size",
                          .expected = fmt::format("{} floats", size()),
                          .got = fmt::format("{} and {}", theta.size(), gradient.size())});
    }
    begin_update(fraction, lr);
    apply_all(theta, gradient);
}

void Optimizer::restore_scalars(std::span<const std::pair<std::string, double>> saved) {
    const double setting = momentum();
    for (const auto& [name, value] : saved) {
        set_scalar(name, value);
    }
    set_momentum(setting);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const FlatLayout& layout,
                                          std::int64_t begin, std::int64_t end, Device& device,
                                          Stream& stream) {
    check_options(options);
    check_range(layout, begin, end);
    return make_range_optimizer(options, end - begin, device, stream,
                                device.kind() == DeviceKind::kCuda
                                    ? make_cuda_updates(layout, begin, end, device, stream)
                                    : make_cpu_updates(layout, begin, end, device));
}

}  // namespace cohort
