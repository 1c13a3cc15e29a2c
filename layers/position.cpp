// Position: [T,F] -> [T,F], y = scale x + table, one row of the table per position. The table is a
// parameter (Gehring et al. 2017), or the sines and cosines of Vaswani et al. 2017, section 3.5:
//   table[t, 2i] = sin(t / 10000^(2i/F)), table[t, 2i+1] = cos(t / 10000^(2i/F)).
#include <algorithm>
#include <cmath>
#include <vector>

#include "cohort/core/error.hpp"
#include "layers/cpu/elementwise_cpu.hpp"
#include "layers/cpu/member_sums.hpp"
#include "layers/kernels.hpp"

namespace cohort {

std::vector<float> position_waves(const Shape& shape) {
    std::vector<float> table(static_cast<std::size_t>(shape.elements()));
    for (std::int64_t t = 0; t < shape[0]; ++t) {
        for (std::int64_t f = 0; f < shape[1]; ++f) {
            const std::int64_t even = f - f % 2;
            const double angle =
                static_cast<double>(t) *
                std::pow(10000.0, -static_cast<double>(even) / static_cast<double>(shape[1]));
            table[static_cast<std::size_t>(t * shape[1] + f)] =
                static_cast<float>(f % 2 == 0 ? std::sin(angle) : std::cos(angle));
        }
    }
    return table;
}

namespace {

class PositionCpu final : public Kernel {
public:
    PositionCpu(const PositionSpec& spec, const KernelContext& context)
        : options_(spec.options),
          floats_(context.inputs.at(0).shape.elements()),
          sums_(cpu_team(context.device), floats_) {
        traits_.output = context.inputs[0];
        traits_.backward_reads_inputs = false;
        traits_.pass_through_input = options_.scale == 1.0F ? 0 : -1;
        if (!options_.learned) {
            waves_ = position_waves(context.inputs[0].shape);
        }
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> /*sizes*/) override {
        return {.backward_shared = options_.learned ? sums_.bytes() : 0};
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const float* table = options_.learned ? binding_.parameters[0] : waves_.data();
        for (std::int64_t n = 0; n < slice.samples; ++n) {
            scaled_sum(options_.scale, slice.inputs[0] + n * floats_, table,
                       slice.output + n * floats_, floats_);
        }
    }

    void begin_backward(std::byte* /*shared*/) override { sums_.begin(); }
    void backward(int /*pass*/, const KernelSlice& slice) override {
        if (options_.learned) {
            bias_backward(slice.output_gradient, sums_.of(slice.shared, slice.member),
                          slice.samples, floats_);
        }
        if (options_.scale != 1.0F && slice.input_gradients[0] != nullptr) {
            std::transform(slice.output_gradient, slice.output_gradient + slice.samples * floats_,
                           slice.input_gradients[0],
                           [this](float gradient) { return options_.scale * gradient; });
        }
    }
    void end_backward(int /*pass*/, std::int64_t /*batch*/, std::byte* shared) override {
        if (options_.learned) {
            std::copy_n(sums_.total(shared), floats_, binding_.gradients[0]);
        }
    }

private:
    PositionOptions options_;
    std::int64_t floats_;  ///< of a sample
    std::vector<float> waves_;
    MemberSums sums_;
};

class Position final : public SpecLayer<PositionSpec, PositionCpu> {
public:
    using SpecLayer::SpecLayer;
    [[nodiscard]] std::string_view kind() const override { return "position"; }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        return only_input("position", inputs, 2);
    }
    [[nodiscard]] std::vector<TensorSpec> parameters(std::span<const Shape> inputs) const override {
        if (!spec_.options.learned) {
            return {};
        }
        return {{"weight", inputs[0], Initialisation::kUniform, true}};
    }
};

}  // namespace

std::shared_ptr<const Layer> make_position(const PositionOptions& options) {
    return std::make_shared<Position>(PositionSpec{options});
}

}  // namespace cohort
