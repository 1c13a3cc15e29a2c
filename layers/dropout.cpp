// Dropout (Srivastava et al. 2014), inverted: kept elements are scaled by 1/(1-p) in training.
//
// The mask of an element is a pure function of (seed, layer, sample id, epoch, element index in
// row-major order): the same on every device, rank and thread, whatever the batch.
#include <algorithm>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "layers/cpu/format_cpu.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class DropoutCpu final : public Kernel {
public:
    DropoutCpu(const DropoutSpec& spec, const KernelContext& context) : spec_(spec) {
        traits_.output = context.inputs.at(0);
        traits_.backward_reads_inputs = false;
        traits_.is_view = !context.training;
        traits_.saved_bytes =
            context.training ? static_cast<std::size_t>(traits_.output.sample_floats()) : 0;
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const std::int64_t floats = traits_.output.sample_floats();
        for (std::int64_t n = 0; n < slice.samples; ++n) {
            std::byte* mask = slice.saved + n * floats;
            draw_mask(slice, n, mask);
            apply_mask(mask, slice.inputs[0] + n * floats, slice.output + n * floats, floats);
        }
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        const std::int64_t floats = traits_.output.sample_floats();
        for (std::int64_t n = 0; slice.input_gradients[0] != nullptr && n < slice.samples; ++n) {
            apply_mask(slice.saved + n * floats, slice.output_gradient + n * floats,
                       slice.input_gradients[0] + n * floats, floats);
        }
    }

private:
    void draw_mask(const KernelSlice& slice, std::int64_t n, std::byte* mask) const {
        check_invariant(slice.sample_ids != nullptr, "dropout needs sample ids");
        const TensorFormat& format = traits_.output;
        const Extent extent = extent_of(format);
        std::fill_n(mask, format.sample_floats(), std::byte{0});
        // 16 bits of the substream tell dropouts apart, 16 the epoch.
        const std::uint32_t substream = (spec_.stream << 16U) ^ slice.epoch;
        Rng rng(slice.seed, RngPurpose::kDropout, static_cast<std::uint64_t>(slice.sample_ids[n]),
                substream);
        for (std::int64_t c = 0; c < extent.channels; ++c) {
            for (std::int64_t p = 0; p < extent.pixels; ++p) {
                if (rng.next_uniform() >= spec_.probability) {
                    mask[element_offset(format, extent.pixels, c, p)] = std::byte{1};
                }
            }
        }
    }

    void apply_mask(const std::byte* mask, const float* from, float* to, std::int64_t count) const {
        const float scale = 1.0F / (1.0F - spec_.probability);
        for (std::int64_t i = 0; i < count; ++i) {
            to[i] = mask[i] != std::byte{0} ? from[i] * scale : 0.0F;
        }
    }

    DropoutSpec spec_;
};

class Dropout final : public SpecLayer<DropoutSpec, DropoutCpu> {
public:
    explicit Dropout(const DropoutSpec& spec) : SpecLayer(spec) {
        if (!(spec.probability >= 0.0F && spec.probability < 1.0F)) {
            fail<ShapeError>({.where = "dropout",
                              .what = "unusable probability",
                              .expected = "0 <= p < 1",
                              .got = std::to_string(spec.probability)});
        }
    }
    [[nodiscard]] std::string_view kind() const override { return "dropout"; }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        return only_input("dropout", inputs, 0);
    }
};

}  // namespace

std::shared_ptr<const Layer> make_dropout(float probability, std::uint32_t stream) {
    return std::make_shared<Dropout>(DropoutSpec{probability, stream});
}

}  // namespace cohort
