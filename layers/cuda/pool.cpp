// Max, average and global average pooling on a GPU: kernels of our own. cuDNN's backward pass of
// max pooling reads input and output again, which would both have to be kept; here one byte per
// output says where the largest number was, and gradients are gathered, so their order is fixed.
#include "cohort/core/error.hpp"
#include "layers/cuda/kernels/pool_kernels.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace cuda {
namespace {

class PoolCuda final : public Kernel {
public:
    PoolCuda(const PoolSpec& spec, const KernelContext& context)
        : kind_(spec.kind),
          support_(support_of(context)),
          training_(context.training),
          problem_(problem_of(spec, context)) {
        const TensorFormat& x = context.inputs.at(0);
        traits_.output = {pooled_shape(spec, x.shape), x.block, x.type};
        traits_.backward_reads_inputs = false;
        if (training_ && kind_ == PoolKind::kMax) {
            traits_.saved_bytes = static_cast<std::size_t>(traits_.output.sample_floats()) *
                                  place_bytes(problem_.cells());
        }
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const PoolProblem p = problem(slice);
        cudaStream_t stream = support_.stream();
        switch (kind_) {
            case PoolKind::kMax:
                max_pool(stream, p, slice.inputs[0], slice.output,
                         training_ ? slice.saved : nullptr);
                break;
            case PoolKind::kAverage: average_pool(stream, p, slice.inputs[0], slice.output); break;
            case PoolKind::kGlobalAverage:
                global_average_pool(stream, p, slice.inputs[0], slice.output);
                break;
        }
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        float* input_gradient = slice.input_gradients[0];
        if (input_gradient == nullptr) {
            return;
        }
        const PoolProblem p = problem(slice);
        cudaStream_t stream = support_.stream();
        switch (kind_) {
            case PoolKind::kMax:
                max_pool_gradient(stream, p, slice.output_gradient, slice.saved, input_gradient);
                break;
            case PoolKind::kAverage:
                average_pool_gradient(stream, p, slice.output_gradient, input_gradient);
                break;
            case PoolKind::kGlobalAverage:
                global_average_pool_gradient(stream, p, slice.output_gradient, input_gradient);
                break;
        }
    }

private:
    [[nodiscard]] static PoolProblem problem_of(const PoolSpec& spec,
                                                const KernelContext& context) {
        const TensorFormat& x = context.inputs.at(0);
        const PoolOptions& o = spec.options;
        const Shape y = pooled_shape(spec, x.shape);
        if (spec.kind == PoolKind::kMax && place_bytes(o.kernel.cells()) == 0) {
            fail<DeviceError>({.where = "max_pool",
                               .what = "the window is too large for this backend",
                               .expected = "at most 65536 cells",
                               .got = to_string(o.kernel),
                               .hint = "--device cpu"});
        }
        if (o.dilation != 1) {
            fail<DeviceError>({.where = word_of(spec.kind),
                               .what = "this backend has no pooling with dilation",
                               .expected = "dilation 1",
                               .got = to_string(o.dilation),
                               .hint = "--device cpu"});
        }
        return {.samples = 0,
                .channels = order_of(x).stored,
                .height = x.shape[1],
                .width = x.shape[2],
                .out_height = y[1],
                .out_width = y[2],
                .window = pool_window(spec, x.shape),
                .count_padding = o.count_padding,
                .type = x.type,
                .multiprocessors = gpu_facts(context.device).multiprocessors};
    }
    [[nodiscard]] PoolProblem problem(const KernelSlice& slice) const {
        PoolProblem own = problem_;
        own.samples = slice.samples;
        return own;
    }

    PoolKind kind_;
    Support& support_;
    bool training_;
    PoolProblem problem_;
};

}  // namespace
}  // namespace cuda

MadeKernel make_cuda_kernel(const PoolSpec& spec, const KernelContext& context) {
    return std::make_unique<cuda::PoolCuda>(spec, context);
}

}  // namespace cohort
