// [T,F] -> [F]: what a sequence has come to at its last position.
#include <algorithm>

#include "layers/kernels.hpp"

namespace cohort {
namespace {

class LastPositionCpu final : public Kernel {
public:
    LastPositionCpu(const LastPositionSpec& /*spec*/, const KernelContext& context)
        : floats_(context.inputs.at(0).shape.elements()), features_(context.inputs[0].shape[1]) {
        traits_.output = {Shape{features_}, 1};
        traits_.backward_reads_inputs = false;
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        for (std::int64_t n = 0; n < slice.samples; ++n) {
            std::copy_n(slice.inputs[0] + (n + 1) * floats_ - features_, features_,
                        slice.output + n * features_);
        }
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        float* to = slice.input_gradients[0];
        for (std::int64_t n = 0; to != nullptr && n < slice.samples; ++n) {
            std::fill_n(to + n * floats_, floats_ - features_, 0.0F);
            std::copy_n(slice.output_gradient + n * features_, features_,
                        to + (n + 1) * floats_ - features_);
        }
    }

private:
    std::int64_t floats_;  ///< of one input sample
    std::int64_t features_;
};

class LastPosition final : public SpecLayer<LastPositionSpec, LastPositionCpu> {
public:
    [[nodiscard]] std::string_view kind() const override { return "last_position"; }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        return {only_input("last_position", inputs, 2)[1]};
    }
};

}  // namespace

std::shared_ptr<const Layer> make_last_position() {
    return std::make_shared<LastPosition>();
}

}  // namespace cohort
