// Linear layer: shapes and parameters, and its CPU kernel. A sequence [T,F] is T rows with one
// weight.
//
// The weight [O, F] is used as it lies in the flat buffer through oneDNN's sgemm, which also
// accumulates the weight gradient in place: no reordering. Cost per row: 2 O F flops forward,
// 4 O F backward.
#include <algorithm>
#include <vector>

#include "cohort/core/error.hpp"
#include "core/tensor/cpu_team.hpp"
#include "layers/cpu/elementwise_cpu.hpp"
#include "layers/cpu/linear_loss.hpp"
#include "layers/cpu/matrix_product.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

std::int64_t features_of(const Shape& shape) {
    return shape[shape.rank() - 1];
}

class LinearCpu final : public Kernel {
public:
    LinearCpu(const LinearSpec& spec, const KernelContext& context)
        : spec_(spec),
          rows_(context.inputs.at(0).shape.rank() == 2 ? context.inputs[0].shape[0] : 1),
          inputs_(features_of(context.inputs.at(0).shape)),
          outputs_(spec.options.features),
          product_(context.precision),
          team_(cpu_team(context.device)),
          used_(static_cast<std::size_t>(team_.size())) {
        const bool sequence = context.inputs[0].shape.rank() == 2;
        traits_.output = {sequence ? Shape{rows_, outputs_} : Shape{outputs_}, 1};
        traits_.backward_reads_output = spec.relu;
        traits_.weight_bytes = static_cast<std::size_t>(inputs_ * outputs_) * sizeof(float);
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> /*sizes*/) override {
        return {.backward_shared =
                    static_cast<std::size_t>(partial_floats()) * sizeof(float) * used_.size()};
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const std::int64_t rows = slice.samples * rows_;
        product_('N', 'T', rows, outputs_, inputs_, slice.inputs[0], inputs_,
                 binding_.parameters[0], inputs_, 0.0F, slice.output, outputs_);
        if (spec_.options.bias) {
            bias_forward(slice.output, binding_.parameters[1], rows, outputs_, spec_.relu);
        } else if (spec_.relu) {
            const std::int64_t count = rows * outputs_;
            std::transform(slice.output, slice.output + count, slice.output,
                           [](float v) { return v < 0.0F ? 0.0F : v; });
        }
    }

    void begin_backward(std::byte* /*shared*/) override {
        std::fill(used_.begin(), used_.end(), char{0});
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        const std::int64_t rows = slice.samples * rows_;
        if (spec_.relu) {
            relu_mask(slice.output, slice.output_gradient, rows * outputs_);
        }
        float* sums = partial(slice.shared, slice.member);
        char& used = used_[static_cast<std::size_t>(slice.member)];
        product_('T', 'N', outputs_, inputs_, rows, slice.output_gradient, outputs_,
                 slice.inputs[0], inputs_, used == 0 ? 0.0F : 1.0F, sums, inputs_);
        if (spec_.options.bias) {
            float* bias = sums + inputs_ * outputs_;
            if (used == 0) {
                std::fill_n(bias, outputs_, 0.0F);
            }
            bias_backward(slice.output_gradient, bias, rows, outputs_);
        }
        used = 1;
        if (slice.input_gradients[0] != nullptr) {
            product_('N', 'N', rows, inputs_, outputs_, slice.output_gradient, outputs_,
                     binding_.parameters[0], inputs_, 0.0F, slice.input_gradients[0], inputs_);
        }
    }

    void end_backward(int /*pass*/, std::int64_t /*batch*/, std::byte* shared) override {
        float* total = partial(shared, 0);
        add_member_sums(team_, total, static_cast<std::size_t>(partial_floats()), used_);
        if (binding_.adds) {
            accumulate(binding_.gradients[0], total, inputs_ * outputs_);
        } else {
            std::copy_n(total, inputs_ * outputs_, binding_.gradients[0]);
        }
        if (spec_.options.bias) {
            std::copy_n(total + inputs_ * outputs_, outputs_, binding_.gradients[1]);
        }
    }

private:
    /// Weight and bias sums of one member.
    [[nodiscard]] std::int64_t partial_floats() const {
        constexpr std::int64_t kAlignment = 16;
        return (inputs_ * outputs_ + outputs_ + kAlignment - 1) / kAlignment * kAlignment;
    }
    [[nodiscard]] float* partial(std::byte* shared, int member) const {
        return reinterpret_cast<float*>(shared) + partial_floats() * member;
    }

    LinearSpec spec_;
    std::int64_t rows_;  ///< positions of a sample
    std::int64_t inputs_;
    std::int64_t outputs_;
    MatrixProduct product_;
    ThreadTeam& team_;
    std::vector<char> used_;  ///< per member: has written its sums
};

class Linear final : public SpecLayer<LinearSpec, LinearCpu> {
public:
    explicit Linear(const LinearSpec& spec) : SpecLayer(spec) {
        if (spec.options.features < 1) {
            fail<ShapeError>({.where = "linear", .what = "features must be at least 1"});
        }
    }
    [[nodiscard]] std::string_view kind() const override {
        return spec_.relu ? "linear+relu" : "linear";
    }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        if (inputs.size() == 1 && inputs[0].rank() == 2) {
            return {inputs[0][0], spec_.options.features};
        }
        only_input("linear", inputs, 1);
        return {spec_.options.features};
    }
    [[nodiscard]] std::vector<TensorSpec> parameters(std::span<const Shape> inputs) const override {
        std::vector<TensorSpec> specs{
            {"weight", Shape{spec_.options.features, features_of(inputs[0])},
             spec_.options.uniform ? Initialisation::kUniform : Initialisation::kHeNormal, true}};
        if (spec_.options.bias) {
            specs.push_back({"bias", Shape{spec_.options.features}, Initialisation::kZero, false});
        }
        return specs;
    }
    [[nodiscard]] double forward_flops(std::span<const Shape> inputs) const override {
        return 2.0 * static_cast<double>(spec_.options.features * inputs[0].elements());
    }
    /// On sequences, whose logits are many.
    [[nodiscard]] std::unique_ptr<Kernel> compile_with_loss(
        const KernelContext& context) const override {
        if (spec_.relu || context.inputs.at(0).shape.rank() != 2) {
            return nullptr;
        }
        return context.device.kind() == DeviceKind::kCuda ? make_cuda_linear_loss(spec_, context)
                                                          : make_linear_loss(spec_, context);
    }
    [[nodiscard]] std::shared_ptr<const Layer> with_relu() const override {
        return spec_.relu ? nullptr : std::make_shared<Linear>(LinearSpec{spec_.options, true});
    }
};

}  // namespace

std::shared_ptr<const Layer> make_linear(const LinearOptions& options) {
    return std::make_shared<Linear>(LinearSpec{options, false});
}

}  // namespace cohort
