#include "layers/cpu/bf16_borders.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "layers/cpu/elements.hpp"

namespace cohort {
namespace {

constexpr ElementType kWide = ElementType::kF32;

ElementType widened(ElementType type) {
    return type == ElementType::kBf16 ? kWide : type;
}

/// Scratch memory: the slice's tensors in single precision, then the inner kernel's.
class Bf16Borders final : public Kernel {
public:
    Bf16Borders(std::unique_ptr<Kernel> inner, const KernelContext& context)
        : inner_(std::move(inner)), inputs_(context.inputs), training_(context.training) {
        traits_ = inner_->traits();
        traits_.output.type = traits_.is_view ? inputs_.at(0).type : ElementType::kBf16;
        const int passed = traits_.pass_through_input;
        if (passed >= 0 && inputs_.at(static_cast<std::size_t>(passed)).type == kWide) {
            traits_.pass_through_input = -1;
            wide_passed_ = passed;
        }
    }

    void bind(const KernelBinding& binding) override { inner_->bind(binding); }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        KernelMemory memory = inner_->prepare(slice_sizes);
        const std::int64_t largest = *std::max_element(slice_sizes.begin(), slice_sizes.end());
        std::size_t inputs = 0;
        for (const TensorFormat& input : inputs_) {
            inputs += ConvertedTensors::bytes(input, widened(input.type), largest);
        }
        const std::size_t output = traits_.forward_passes == 0
                                       ? 0
                                       : ConvertedTensors::bytes(traits_.output, kWide, largest);
        memory.forward_scratch += inputs + output;
        memory.backward_scratch += training_ ? 2 * inputs + 2 * output : 0;
        return memory;
    }

    void begin_forward(std::byte* shared) override { inner_->begin_forward(shared); }
    /// A pass that is not the last one leaves no output.
    void forward(int pass, const KernelSlice& slice) override {
        Wide wide(*this, slice);
        wide.widen_inputs();
        wide.slice.output = wide.tensors.room(traits_.output, slice.output, kWide);
        inner_->forward(pass, wide.complete());
        if (pass + 1 == traits_.forward_passes) {
            wide.tensors.hand_back(traits_.output, wide.slice.output, kWide, slice.output);
        }
    }
    void end_forward(int pass, std::int64_t batch, std::byte* shared) override {
        inner_->end_forward(pass, batch, shared);
    }

    void begin_backward(std::byte* shared) override { inner_->begin_backward(shared); }
    void backward(int pass, const KernelSlice& slice) override {
        Wide wide(*this, slice);
        if (traits_.backward_reads_inputs) {
            wide.widen_inputs();
        }
        if (traits_.backward_reads_output) {
            wide.slice.output = wide.tensors.converted(traits_.output, slice.output, kWide);
        }
        wide.slice.output_gradient =
            wide.tensors.converted(traits_.output, slice.output_gradient, kWide);
        wide.make_input_gradients();
        inner_->backward(pass, wide.complete());
        wide.hand_back_input_gradients();
        if (wide_passed_ >= 0) {
            float* passed = slice.input_gradients[static_cast<std::size_t>(wide_passed_)];
            if (passed != nullptr) {
                std::copy_n(wide.slice.output_gradient,
                            slice.samples * traits_.output.sample_floats(), passed);
            }
        }
        if (pass + 1 < traits_.backward_passes || traits_.pass_through_input >= 0) {
            wide.tensors.hand_back(traits_.output, wide.slice.output_gradient, kWide,
                                   slice.output_gradient);
        }
    }
    LossSums backward_with_loss(const KernelSlice& slice, const LossSlice& labels,
                                LossKernel& loss) override {
        Wide wide(*this, slice);
        wide.widen_inputs();
        wide.make_input_gradients();
        const LossSums sums = inner_->backward_with_loss(wide.complete(), labels, loss);
        wide.hand_back_input_gradients();
        return sums;
    }
    void end_backward(int pass, std::int64_t batch, std::byte* shared) override {
        inner_->end_backward(pass, batch, shared);
    }
    [[nodiscard]] std::vector<KernelImplementation> implementations() const override {
        return inner_->implementations();
    }

private:
    /// One slice with its tensors in single precision.
    struct Wide {
        Wide(const Bf16Borders& kernel, const KernelSlice& short_slice)
            : borders(kernel),
              shorts(short_slice),
              slice(short_slice),
              tensors(short_slice.scratch, short_slice.samples) {}

        void widen_inputs() {
            for (std::size_t i = 0; i < shorts.inputs.size(); ++i) {
                const TensorFormat& format = borders.inputs_[i];
                inputs.push_back(tensors.converted(format, shorts.inputs[i], widened(format.type)));
            }
            slice.inputs = inputs;
        }
        void make_input_gradients() {
            for (std::size_t i = 0; i < shorts.input_gradients.size(); ++i) {
                const TensorFormat& format = borders.inputs_[i];
                float* gradient = shorts.input_gradients[i];
                gradients.push_back(gradient == nullptr
                                        ? nullptr
                                        : tensors.room(format, gradient, widened(format.type)));
            }
            slice.input_gradients = gradients;
        }
        /// After the last tensor.
        const KernelSlice& complete() {
            slice.scratch = tensors.rest();
            return slice;
        }
        void hand_back_input_gradients() const {
            for (std::size_t i = 0; i < gradients.size(); ++i) {
                const TensorFormat& format = borders.inputs_[i];
                tensors.hand_back(format, gradients[i], widened(format.type),
                                  shorts.input_gradients[i]);
            }
        }

        const Bf16Borders& borders;
        const KernelSlice& shorts;
        KernelSlice slice;
        ConvertedTensors tensors;
        std::vector<const float*> inputs;
        std::vector<float*> gradients;
    };

    std::unique_ptr<Kernel> inner_;
    std::vector<TensorFormat> inputs_;
    bool training_;
    int wide_passed_ = -1;  ///< pass_through_input where that is single precision
};

}  // namespace

KernelContext single_precision(const KernelContext& context) {
    KernelContext single = context;
    for (TensorFormat& input : single.inputs) {
        input.type = widened(input.type);
    }
    return single;
}

std::unique_ptr<Kernel> make_bf16_borders(std::unique_ptr<Kernel> inner,
                                          const KernelContext& context) {
    return std::make_unique<Bf16Borders>(std::move(inner), context);
}

}  // namespace cohort
