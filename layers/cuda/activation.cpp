// Activations on a GPU. The ReLUs, sigmoid and tanh need their output alone to go back, GELU its
// input.
#include "layers/cuda/kernels/element_kernels.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class ActivationCuda final : public Kernel {
public:
    ActivationCuda(ActivationKind kind, const KernelContext& context)
        : kind_(kind), support_(cuda::support_of(context)) {
        traits_.output = context.inputs.at(0);
        traits_.backward_reads_inputs = kind == ActivationKind::kGelu;
        traits_.backward_reads_output = kind != ActivationKind::kGelu;
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const TensorFormat& format = traits_.output;
        if (kind_ == ActivationKind::kRelu) {
            cuda::relu_elements(support_.stream(), format.type, slice.output, slice.inputs[0],
                                slice.samples * format.sample_floats());
        } else {
            cuda::activate(support_.stream(), kind_, format, slice.samples, slice.output,
                           slice.inputs[0]);
        }
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        if (slice.input_gradients[0] == nullptr) {
            return;
        }
        const TensorFormat& format = traits_.output;
        if (kind_ == ActivationKind::kRelu) {
            cuda::relu_mask_elements(support_.stream(), format.type, slice.input_gradients[0],
                                     slice.output, slice.output_gradient,
                                     slice.samples * format.sample_floats());
        } else {
            const float* values = kind_ == ActivationKind::kGelu ? slice.inputs[0] : slice.output;
            cuda::activate_backward(support_.stream(), kind_, format, slice.samples,
                                    slice.input_gradients[0], values, slice.output_gradient);
        }
    }

private:
    ActivationKind kind_;
    cuda::Support& support_;
};

}  // namespace

MadeKernel make_cuda_kernel(const ActivationKind& kind, const KernelContext& context) {
    return std::make_unique<ActivationCuda>(kind, context);
}

}  // namespace cohort
