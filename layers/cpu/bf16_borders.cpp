#include "layers/cpu/bf16_borders.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "layers/cpu/elements.hpp"

namespace cohort {
namespace {

bool is_short(const TensorFormat& format) {
    return format.type == ElementType::kBf16;
}

/// Scratch memory: the inner kernel's, then per member of the list below the slice in single
/// precision. Its place depends on the slice's size alone.
class Bf16Borders final : public Kernel {
public:
    Bf16Borders(std::unique_ptr<Kernel> inner, const KernelContext& context)
        : inner_(std::move(inner)), inputs_(context.inputs), training_(context.training) {
        traits_ = inner_->traits();
        traits_.output.type = traits_.is_view ? inputs_.at(0).type : ElementType::kBf16;
        const int passed = traits_.pass_through_input;
        if (passed >= 0 && inputs_.at(static_cast<std::size_t>(passed)).type != ElementType::kBf16) {
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
            inputs += is_short(input) ? bytes(input, largest) : 0;
        }
        inner_scratch_ = padded(std::max(memory.forward_scratch, memory.backward_scratch));
        const std::size_t output = bytes(traits_.output, largest);
        memory.forward_scratch = inner_scratch_ + inputs + output;
        memory.backward_scratch = training_ ? inner_scratch_ + 2 * inputs + 2 * output : 0;
        return memory;
    }

    void begin_forward(std::byte* shared) override { inner_->begin_forward(shared); }
    /// A pass that is not the last one leaves no output.
    void forward(int pass, const KernelSlice& slice) override {
        Wide wide(*this, slice);
        wide.widen_inputs();
        wide.slice.output = wide.room_for(traits_.output);
        inner_->forward(pass, wide.slice);
        if (pass + 1 == traits_.forward_passes) {
            narrow(traits_.output, wide.slice.output, slice.output, slice.samples);
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
            wide.slice.output = wide.widened(traits_.output, slice.output);
        }
        wide.slice.output_gradient = wide.widened(traits_.output, slice.output_gradient);
        wide.make_input_gradients();
        inner_->backward(pass, wide.slice);
        wide.narrow_input_gradients();
        if (wide_passed_ >= 0) {
            float* passed = slice.input_gradients[static_cast<std::size_t>(wide_passed_)];
            if (passed != nullptr) {
                std::copy_n(wide.slice.output_gradient,
                            slice.samples * traits_.output.sample_floats(), passed);
            }
        }
        if (pass + 1 < traits_.backward_passes || traits_.pass_through_input >= 0) {
            narrow(traits_.output, wide.slice.output_gradient, slice.output_gradient,
                   slice.samples);
        }
    }
    LossSums backward_with_loss(const KernelSlice& slice, const LossSlice& loss) override {
        Wide wide(*this, slice);
        wide.widen_inputs();
        wide.make_input_gradients();
        const LossSums sums = inner_->backward_with_loss(wide.slice, loss);
        wide.narrow_input_gradients();
        return sums;
    }
    void end_backward(int pass, std::int64_t batch, std::byte* shared) override {
        inner_->end_backward(pass, batch, shared);
    }

private:
    /// One slice with its tensors in single precision.
    struct Wide {
        Wide(const Bf16Borders& kernel, const KernelSlice& narrow_slice)
            : slice(narrow_slice),
              borders(kernel),
              narrow_inputs(narrow_slice.inputs),
              narrow_gradients(narrow_slice.input_gradients),
              free(narrow_slice.scratch + kernel.inner_scratch_) {}

        float* room_for(const TensorFormat& format) {
            auto* room = reinterpret_cast<float*>(free);
            free += bytes(format, slice.samples);
            return room;
        }
        float* widened(const TensorFormat& format, const float* from) {
            float* wide = room_for(format);
            convert_elements(ElementType::kBf16, from, ElementType::kF32, wide,
                             slice.samples * format.sample_floats());
            return wide;
        }
        void widen_inputs() {
            for (std::size_t i = 0; i < narrow_inputs.size(); ++i) {
                const TensorFormat& format = borders.inputs_[i];
                inputs.push_back(is_short(format) ? widened(format, narrow_inputs[i])
                                                  : narrow_inputs[i]);
            }
            slice.inputs = inputs;
        }
        void make_input_gradients() {
            for (std::size_t i = 0; i < narrow_gradients.size(); ++i) {
                const TensorFormat& format = borders.inputs_[i];
                float* gradient = narrow_gradients[i];
                gradients.push_back(gradient != nullptr && is_short(format) ? room_for(format)
                                                                            : gradient);
            }
            slice.input_gradients = gradients;
        }
        void narrow_input_gradients() const {
            for (std::size_t i = 0; i < gradients.size(); ++i) {
                if (gradients[i] != narrow_gradients[i]) {
                    narrow(borders.inputs_[i], gradients[i], narrow_gradients[i], slice.samples);
                }
            }
        }

        KernelSlice slice;
        const Bf16Borders& borders;
        std::span<const float* const> narrow_inputs;
        std::span<float* const> narrow_gradients;
        std::vector<const float*> inputs;
        std::vector<float*> gradients;
        std::byte* free;
    };

    static std::size_t bytes(const TensorFormat& format, std::int64_t samples) {
        return padded(static_cast<std::size_t>(samples * format.sample_floats()) * sizeof(float));
    }
    static void narrow(const TensorFormat& format, const float* from, float* to,
                       std::int64_t samples) {
        convert_elements(ElementType::kF32, from, ElementType::kBf16, to,
                         samples * format.sample_floats());
    }

    std::unique_ptr<Kernel> inner_;
    std::vector<TensorFormat> inputs_;
    bool training_;
    int wide_passed_ = -1;  ///< pass_through_input where that is single precision
    std::size_t inner_scratch_ = 0;
};

}  // namespace

KernelContext single_precision(const KernelContext& context) {
    KernelContext single = context;
    single.precision = Precision::kF32;
    for (TensorFormat& input : single.inputs) {
        input.type = is_short(input) ? ElementType::kF32 : input.type;
    }
    return single;
}

std::unique_ptr<Kernel> make_bf16_borders(std::unique_ptr<Kernel> inner,
                                          const KernelContext& context) {
    return std::make_unique<Bf16Borders>(std::move(inner), context);
}

}  // namespace cohort
