// [C,H,W] -> [C H W] in row-major order on a GPU: a transposition of pixels and channels. Costs
// nothing where memory already is in that order.
#include "layers/cuda/kernels/matrix_kernels.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class FlattenCuda final : public Kernel {
public:
    explicit FlattenCuda(const KernelContext& context)
        : input_(context.inputs.at(0)), support_(cuda::support_of(context)) {
        const Shape& shape = input_.shape;
        traits_.output = {Shape{shape.elements()}, 1, input_.type};
        traits_.backward_reads_inputs = false;
        channels_ = shape.rank() == 3 ? shape[0] : 1;
        pixels_ = shape.elements() / channels_;
        traits_.is_view =
            shape.rank() != 3 || (input_.block == channels_ && (pixels_ == 1 || channels_ == 1));
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        cuda::transpose_batch(support_.stream(), input_.type,
                              {.batch = slice.samples,
                               .rows = pixels_,
                               .columns = channels_,
                               .from_stride = input_.block,
                               .to_stride = pixels_},
                              slice.output, slice.inputs[0]);
    }
    void backward(int /*pass*/, const KernelSlice& slice) override {
        if (slice.input_gradients[0] != nullptr) {
            cuda::transpose_batch(support_.stream(), input_.type,
                                  {.batch = slice.samples,
                                   .rows = channels_,
                                   .columns = pixels_,
                                   .from_stride = pixels_,
                                   .to_stride = input_.block},
                                  slice.input_gradients[0], slice.output_gradient);
        }
    }

private:
    TensorFormat input_;
    cuda::Support& support_;
    std::int64_t channels_ = 1;
    std::int64_t pixels_ = 1;
};

}  // namespace

MadeKernel make_cuda_kernel(const FlattenSpec& /*spec*/, const KernelContext& context) {
    return std::make_unique<FlattenCuda>(context);
}

}  // namespace cohort
