#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/core/rng.hpp"
#include "cohort/optim/optimizer.hpp"

namespace cohort::test {

/// `n` numbers around 0, the same for the same key.
inline std::vector<float> random_floats(std::int64_t n, std::uint64_t key) {
    Rng rng(17, RngPurpose::kTest, key);
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& value : values) {
        value = rng.next_normal();
    }
    return values;
}

/// A layout of one decaying tensor of `n` floats.
inline FlatLayout one_tensor(std::int64_t n) {
    FlatLayout layout;
    layout.add("weight", Shape{n}, true);
    return layout;
}

/// Tensors with and without decay, with and without padding.
inline FlatLayout mixed_layout() {
    FlatLayout layout;
    layout.add("conv.weight", Shape{5, 7}, true);  // 35 of 48
    layout.add("bn.scale", Shape{5}, false);       // 5 of 16
    layout.add("fc.weight", Shape{32}, true);      // no padding
    layout.add("fc.bias", Shape{3}, false);
    return layout;
}

/// Parameters under an optimizer on the CPU.
struct OptimizerRun {
    std::unique_ptr<Device> device = make_cpu_device(1);
    std::unique_ptr<Stream> stream = device->create_stream();
    std::unique_ptr<Optimizer> optimizer;
    std::vector<float> theta;

    OptimizerRun(const OptimizerOptions& options, const FlatLayout& layout, std::int64_t begin,
                 std::int64_t end, std::vector<float> start)
        : optimizer(make_optimizer(options, layout, begin, end, *device, *stream)),
          theta(std::move(start)) {}

    /// One tensor that starts at `start`.
    OptimizerRun(const OptimizerOptions& options, std::vector<float> start)
        : OptimizerRun(options, one_tensor(static_cast<std::int64_t>(start.size())), 0,
                       static_cast<std::int64_t>(start.size()), start) {}

    void update(const std::vector<float>& gradient, double fraction, double lr) {
        optimizer->update(theta, gradient, fraction, lr);
    }

    [[nodiscard]] std::span<float> slot(std::size_t index) {
        return optimizer->slots().at(index).values;
    }

    [[nodiscard]] double scalar(std::string_view name) const {
        for (const OptimizerScalar& scalar : optimizer->scalars()) {
            if (scalar.name == name) {
                return scalar.value;
            }
        }
        throw std::out_of_range("no such scalar");
    }
};

}  // namespace cohort::test
