// Dropout on a GPU: the CPU's masks, drawn in both directions instead of being kept.
#include "cohort/core/error.hpp"
#include "layers/cuda/kernels/dropout_kernels.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class DropoutCuda final : public Kernel {
public:
    DropoutCuda(const DropoutSpec& spec, const KernelContext& context)
        : spec_(spec), support_(cuda::support_of(context)) {
        const TensorFormat& input = context.inputs.at(0);
        traits_.output = input;
        traits_.backward_reads_inputs = false;
        traits_.is_view = !context.training;
        if (input.shape.rank() == 3) {
            shape_ = {input.shape[0], input.shape[1] * input.shape[2], input.block};
        } else {
            shape_ = {input.shape.elements(), 1, input.shape.elements()};
        }
        constexpr std::int64_t kMost = 0xffffffff;
        if (input.shape.elements() > kMost) {
            fail<ShapeError>({.where = "dropout",
                              .what = "a sample is too large",
                              .expected = "less than 2^32 elements",
                              .got = to_string(input.shape)});
        }
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        drop(slice, slice.output, slice.inputs[0]);
    }
    void backward(int /*pass*/, const KernelSlice& slice) override {
        if (slice.input_gradients[0] != nullptr) {
            drop(slice, slice.input_gradients[0], slice.output_gradient);
        }
    }

private:
    void drop(const KernelSlice& slice, float* to, const float* from) {
        check_invariant(slice.sample_ids != nullptr, "dropout needs sample ids");
        cuda::drop_elements(support_.stream(), traits_.output.type, shape_, slice.samples,
                            spec_.probability, spec_.stream, support_.step_values(),
                            slice.sample_ids, to, from);
    }

    DropoutSpec spec_;
    cuda::Support& support_;
    cuda::DropoutShape shape_;
};

}  // namespace

MadeKernel make_cuda_kernel(const DropoutSpec& spec, const KernelContext& context) {
    return std::make_unique<DropoutCuda>(spec, context);
}

}  // namespace cohort
