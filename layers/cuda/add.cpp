// Elementwise sum on a GPU. The two inputs are in one order, but where one comes from the network's
// input, whose channels are padded: that one is copied first.
#include <algorithm>

#include "layers/cuda/kernels/element_kernels.hpp"
#include "layers/cuda/kernels/matrix_kernels.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class AddCuda final : public Kernel {
public:
    AddCuda(const AddSpec& spec, const KernelContext& context)
        : spec_(spec), second_(context.inputs.at(1)), support_(cuda::support_of(context)) {
        traits_.output = context.inputs.at(0);
        traits_.backward_reads_inputs = false;
        traits_.backward_reads_output = spec.relu;
        traits_.pass_through_input = 0;
        traits_.adding_input = second_ == traits_.output ? 1 : -1;
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        KernelMemory memory;
        if (!(second_ == traits_.output) && !slice_sizes.empty()) {
            const std::int64_t largest = *std::max_element(slice_sizes.begin(), slice_sizes.end());
            memory.forward_scratch =
                static_cast<std::size_t>(largest) * traits_.output.sample_bytes();
        }
        return memory;
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const void* second = slice.inputs[1];
        if (!(second_ == traits_.output)) {
            convert(second_, slice.inputs[1], traits_.output, slice.scratch, slice.samples);
            second = slice.scratch;
        }
        cuda::add_two_elements(support_.stream(), traits_.output.type, slice.output,
                               slice.inputs[0], second,
                               slice.samples * traits_.output.sample_floats(), spec_.relu);
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        if (spec_.relu) {
            cuda::relu_mask_elements(support_.stream(), traits_.output.type, slice.output_gradient,
                                     slice.output, slice.output_gradient,
                                     slice.samples * traits_.output.sample_floats());
        }
        if (slice.input_gradients[1] != nullptr && binding_.adds_input_gradient) {
            support_.add_into(traits_.output.type, slice.input_gradients[1], slice.output_gradient,
                              slice.samples * traits_.output.sample_floats());
        } else if (slice.input_gradients[1] != nullptr) {
            convert(traits_.output, slice.output_gradient, second_, slice.input_gradients[1],
                    slice.samples);
        }
    }

private:
    /// From one number of padding channels to another's; [F] and [T,F] are copied as they are.
    void convert(const TensorFormat& from, const void* source, const TensorFormat& to, void* target,
                 std::int64_t samples) const {
        const cuda::ImageOrder order = cuda::order_of(from);
        const std::int64_t stored = cuda::order_of(to).stored;
        cuda::copy_columns(support_.stream(), from.type,
                           {.rows = samples * order.pixels,
                            .width = order.channels,
                            .filled = stored,
                            .from_stride = order.stored,
                            .to_stride = stored},
                           target, source);
    }

    AddSpec spec_;
    TensorFormat second_;
    cuda::Support& support_;
};

}  // namespace

MadeKernel make_cuda_kernel(const AddSpec& spec, const KernelContext& context) {
    return std::make_unique<AddCuda>(spec, context);
}

}  // namespace cohort
