// [C,H,W] -> [C*H*W] in row-major order. Costs nothing where memory already is in that order.
#include "layers/cpu/format_cpu.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class FlattenCpu final : public Kernel {
public:
    FlattenCpu(const FlattenSpec& /*spec*/, const KernelContext& context)
        : input_(context.inputs.at(0)), row_major_{input_.shape, 1, input_.type} {
        traits_.output = {Shape{input_.shape.elements()}, 1, input_.type};
        traits_.backward_reads_inputs = false;
        traits_.is_view = input_.block == 1 || (extent_of(input_).pixels == 1 &&
                                                input_.sample_floats() == input_.shape.elements());
    }
    [[nodiscard]] static bool takes_bf16(const FlattenSpec& /*spec*/,
                                         const KernelContext& /*context*/) {
        return true;
    }
    void forward(int /*pass*/, const KernelSlice& slice) override {
        convert_format(input_, slice.inputs[0], row_major_, slice.output, slice.samples);
    }
    void backward(int /*pass*/, const KernelSlice& slice) override {
        if (slice.input_gradients[0] != nullptr) {
            convert_format(row_major_, slice.output_gradient, input_, slice.input_gradients[0],
                           slice.samples);
        }
    }

private:
    TensorFormat input_;
    TensorFormat row_major_;
};

class Flatten final : public SpecLayer<FlattenSpec, FlattenCpu> {
public:
    [[nodiscard]] std::string_view kind() const override { return "flatten"; }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        return {only_input("flatten", inputs, 0).elements()};
    }
};

}  // namespace

std::shared_ptr<const Layer> make_flatten() {
    return std::make_shared<Flatten>();
}

}  // namespace cohort
