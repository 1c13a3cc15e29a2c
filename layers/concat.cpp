// Joins [Ci,H,W] along the channels, [Fi] or [T,Fi] along the features.
#include <algorithm>

#include "cohort/core/error.hpp"
#include "layers/cpu/elements.hpp"
#include "layers/cpu/format_cpu.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

/// [C,H,W]: channels; [T,F] and [F]: features.
int joined_axis(const Shape& shape) {
    return shape.rank() == 2 ? 1 : 0;
}

/// The shape with another number of channels or features.
Shape with_joined(const Shape& shape, std::int64_t count) {
    switch (shape.rank()) {
        case 1: return {count};
        case 2: return {shape[0], count};
        default: return {count, shape[1], shape[2]};
    }
}

/// Copies the channels of a part to or from their place in the whole, one sample.
template <class Element>
void copy_channels(const TensorFormat& from, const Element* source, std::int64_t source_channel,
                   const TensorFormat& to, Element* target, std::int64_t target_channel,
                   std::int64_t channels) {
    const std::int64_t pixels = extent_of(from).pixels;
    if (from.block == to.block && source_channel % from.block == 0 &&
        target_channel % to.block == 0 && channels % from.block == 0) {
        std::copy_n(source + source_channel * pixels, channels * pixels,
                    target + target_channel * pixels);
        return;
    }
    for (std::int64_t c = 0; c < channels; ++c) {
        const Element* a = source + element_offset(from, pixels, source_channel + c, 0);
        Element* b = target + element_offset(to, pixels, target_channel + c, 0);
        for (std::int64_t p = 0; p < pixels; ++p) {
            b[p * to.block] = a[p * from.block];
        }
    }
}

class ConcatCpu final : public Kernel {
public:
    ConcatCpu(const ConcatSpec& /*spec*/, const KernelContext& context) : inputs_(context.inputs) {
        const Shape first = inputs_.at(0).shape;
        std::int64_t joined = 0;
        std::int64_t block = 1;
        for (TensorFormat& input : inputs_) {
            joined += input.shape[joined_axis(input.shape)];
            block = std::max(block, input.block);
            if (first.rank() == 2) {
                input.shape = Shape{input.shape[1]};
            }
        }
        rows_ = first.rank() == 2 ? first[0] : 1;
        const ElementType type = inputs_[0].type;
        whole_ = {first.rank() == 2 ? Shape{joined} : with_joined(first, joined), block, type};
        traits_.output = {with_joined(first, joined), block, type};
        traits_.backward_reads_inputs = false;
    }

    [[nodiscard]] static bool takes_bf16(const ConcatSpec& /*spec*/, const KernelContext& context) {
        return of_one_type(context);
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        with_elements(whole_.type, [&](auto element) { join<decltype(element)>(slice); });
    }
    void backward(int /*pass*/, const KernelSlice& slice) override {
        with_elements(whole_.type, [&](auto element) { part<decltype(element)>(slice); });
    }

private:
    template <class Element>
    void join(const KernelSlice& slice) const {
        const std::int64_t rows = slice.samples * rows_;
        const std::int64_t floats = whole_.sample_floats();
        auto* output = as<Element>(slice.output);
        if (floats != whole_.shape.elements()) {
            std::fill_n(output, rows * floats, Element{});
        }
        std::int64_t channel = 0;
        for (std::size_t k = 0; k < inputs_.size(); ++k) {
            const TensorFormat& part = inputs_[k];
            const auto* input = as<Element>(slice.inputs[k]);
            for (std::int64_t n = 0; n < rows; ++n) {
                copy_channels(part, input + n * part.sample_floats(), 0, whole_,
                              output + n * floats, channel, part.shape[0]);
            }
            channel += part.shape[0];
        }
    }

    template <class Element>
    void part(const KernelSlice& slice) const {
        const std::int64_t rows = slice.samples * rows_;
        const auto* output_gradient = as<Element>(slice.output_gradient);
        std::int64_t channel = 0;
        for (std::size_t k = 0; k < inputs_.size(); ++k) {
            const TensorFormat& part = inputs_[k];
            auto* gradient = as<Element>(slice.input_gradients[k]);
            for (std::int64_t n = 0; gradient != nullptr && n < rows; ++n) {
                Element* sample = gradient + n * part.sample_floats();
                if (part.sample_floats() != part.shape.elements()) {
                    std::fill_n(sample, part.sample_floats(), Element{});
                }
                copy_channels(whole_, output_gradient + n * whole_.sample_floats(), channel, part,
                              sample, 0, part.shape[0]);
            }
            channel += part.shape[0];
        }
    }

    std::int64_t rows_ = 1;             ///< positions of a sample: each is a row of its own
    std::vector<TensorFormat> inputs_;  ///< of a row
    TensorFormat whole_;                ///< likewise
};

class Concat final : public SpecLayer<ConcatSpec, ConcatCpu> {
public:
    [[nodiscard]] std::string_view kind() const override { return "concat"; }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        if (inputs.empty()) {
            fail<ShapeError>({.where = "concat",
                              .what = "inputs do not fit",
                              .expected = "one or more [C,H,W], [F] or [T,F]",
                              .got = "none"});
        }
        std::int64_t joined = 0;
        for (const Shape& shape : inputs) {
            if (!(with_joined(shape, 1) == with_joined(inputs[0], 1))) {
                fail<ShapeError>({.where = "concat",
                                  .what = inputs[0].rank() == 3 ? "heights or widths differ"
                                                                : "positions differ",
                                  .expected = to_string(inputs[0]),
                                  .got = to_string(shape)});
            }
            joined += shape[joined_axis(shape)];
        }
        return with_joined(inputs[0], joined);
    }
};

}  // namespace

std::shared_ptr<const Layer> make_concat() {
    return std::make_shared<Concat>();
}

}  // namespace cohort
