// Joins [Ci,H,W] along the channels.
#include <algorithm>

#include "cohort/core/error.hpp"
#include "format_cpu.hpp"
#include "kernels.hpp"

namespace cohort {
namespace {

class Concat final : public Layer {
public:
    [[nodiscard]] std::string_view kind() const override { return "concat"; }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        if (inputs.empty() || inputs[0].rank() != 3) {
            fail<ShapeError>({.where = "concat",
                              .what = "inputs do not fit",
                              .expected = "one or more [C,H,W]",
                              .got = inputs.empty() ? "none" : to_string(inputs[0])});
        }
        std::int64_t channels = 0;
        for (const Shape& shape : inputs) {
            if (shape.rank() != 3 || shape[1] != inputs[0][1] || shape[2] != inputs[0][2]) {
                fail<ShapeError>({.where = "concat",
                                  .what = "heights or widths differ",
                                  .expected = to_string(inputs[0]),
                                  .got = to_string(shape)});
            }
            channels += shape[0];
        }
        return {channels, inputs[0][1], inputs[0][2]};
    }
    [[nodiscard]] std::unique_ptr<Kernel> compile(const KernelContext& context) const override {
        return make_kernel(ConcatSpec{}, context);
    }
};

/// Copies the channels of a part to or from their place in the whole, one sample.
template <class From, class To>
void copy_channels(const From& from, const float* source, std::int64_t source_channel, const To& to,
                   float* target, std::int64_t target_channel, std::int64_t channels) {
    const std::int64_t pixels = extent_of(from).pixels;
    if (from.block == to.block && source_channel % from.block == 0 &&
        target_channel % to.block == 0 && channels % from.block == 0) {
        std::copy_n(source + source_channel * pixels, channels * pixels,
                    target + target_channel * pixels);
        return;
    }
    for (std::int64_t c = 0; c < channels; ++c) {
        const float* a = source + element_offset(from, pixels, source_channel + c, 0);
        float* b = target + element_offset(to, pixels, target_channel + c, 0);
        for (std::int64_t p = 0; p < pixels; ++p) {
            b[p * to.block] = a[p * from.block];
        }
    }
}

class ConcatCpu final : public Kernel {
public:
    explicit ConcatCpu(const KernelContext& context) : inputs_(context.inputs) {
        std::int64_t channels = 0;
        std::int64_t block = 1;
        for (const TensorFormat& input : inputs_) {
            channels += input.shape[0];
            block = std::max(block, input.block);
        }
        traits_.output = {Shape{channels, inputs_[0].shape[1], inputs_[0].shape[2]}, block};
        traits_.backward_reads_inputs = false;
    }
    [[nodiscard]] const KernelTraits& traits() const override { return traits_; }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const TensorFormat& whole = traits_.output;
        const std::int64_t floats = whole.sample_floats();
        if (floats != whole.shape.elements()) {
            std::fill_n(slice.output, slice.samples * floats, 0.0F);
        }
        std::int64_t channel = 0;
        for (std::size_t k = 0; k < inputs_.size(); ++k) {
            const TensorFormat& part = inputs_[k];
            for (std::int64_t n = 0; n < slice.samples; ++n) {
                copy_channels(part, slice.inputs[k] + n * part.sample_floats(), 0, whole,
                              slice.output + n * floats, channel, part.shape[0]);
            }
            channel += part.shape[0];
        }
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        const TensorFormat& whole = traits_.output;
        std::int64_t channel = 0;
        for (std::size_t k = 0; k < inputs_.size(); ++k) {
            const TensorFormat& part = inputs_[k];
            float* gradient = slice.input_gradients[k];
            for (std::int64_t n = 0; gradient != nullptr && n < slice.samples; ++n) {
                float* sample = gradient + n * part.sample_floats();
                if (part.sample_floats() != part.shape.elements()) {
                    std::fill_n(sample, part.sample_floats(), 0.0F);
                }
                copy_channels(whole, slice.output_gradient + n * whole.sample_floats(), channel,
                              part, sample, 0, part.shape[0]);
            }
            channel += part.shape[0];
        }
    }

private:
    std::vector<TensorFormat> inputs_;
    KernelTraits traits_;
};

}  // namespace

std::shared_ptr<const Layer> make_concat() {
    return std::make_shared<Concat>();
}

MadeKernel make_cpu_kernel(const ConcatSpec& /*spec*/, const KernelContext& context) {
    return std::make_unique<ConcatCpu>(context);
}

}  // namespace cohort
