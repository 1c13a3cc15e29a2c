// [T,F] -> [F] on a GPU: the last F columns of every sample's row of T F.
#include "core/tensor/cuda.hpp"
#include "layers/cuda/kernels/matrix_kernels.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class LastPositionCuda final : public Kernel {
public:
    explicit LastPositionCuda(const KernelContext& context)
        : elements_(context.inputs.at(0).shape.elements()),
          features_(context.inputs[0].shape[1]),
          support_(cuda::support_of(context)) {
        traits_.output = {Shape{features_}, 1, context.inputs[0].type};
        traits_.backward_reads_inputs = false;
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        cuda::copy_columns(support_.stream(), traits_.output.type,
                           {.rows = slice.samples,
                            .width = features_,
                            .filled = features_,
                            .from_stride = elements_,
                            .from_column = elements_ - features_,
                            .to_stride = features_},
                           slice.output, slice.inputs[0]);
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        float* to = slice.input_gradients[0];
        if (to == nullptr) {
            return;
        }
        const auto elements = static_cast<std::size_t>(slice.samples * elements_);
        cuda::check(cudaMemsetAsync(to, 0, elements * element_bytes(traits_.output.type),
                                    support_.stream()),
                    "cudaMemsetAsync");
        cuda::copy_columns(support_.stream(), traits_.output.type,
                           {.rows = slice.samples,
                            .width = features_,
                            .filled = features_,
                            .from_stride = features_,
                            .to_stride = elements_,
                            .to_column = elements_ - features_},
                           to, slice.output_gradient);
    }

private:
    std::int64_t elements_;  ///< of one input sample
    std::int64_t features_;
    cuda::Support& support_;
};

}  // namespace

MadeKernel make_cuda_kernel(const LastPositionSpec& /*spec*/, const KernelContext& context) {
    return std::make_unique<LastPositionCuda>(context);
}

}  // namespace cohort
