// Concatenation on a GPU: channels of NHWC and features alike are columns, every part is copied to
// its columns of the whole.
#include "layers/cuda/kernels/matrix_kernels.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

using cuda::ImageOrder;
using cuda::order_of;

TensorFormat joined(const std::vector<TensorFormat>& parts) {
    std::int64_t width = 0;
    for (const TensorFormat& part : parts) {
        width += order_of(part).channels;
    }
    const TensorFormat& first = parts.at(0);
    switch (first.shape.rank()) {
        case 1: return {Shape{width}, 1, first.type};
        case 2: return {Shape{first.shape[0], width}, 1, first.type};
        default: return {Shape{width, first.shape[1], first.shape[2]}, width, first.type};
    }
}

class ConcatCuda final : public Kernel {
public:
    explicit ConcatCuda(const KernelContext& context)
        : inputs_(context.inputs), support_(cuda::support_of(context)) {
        traits_.output = joined(inputs_);
        traits_.backward_reads_inputs = false;
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const ImageOrder whole = order_of(traits_.output);
        std::int64_t column = 0;
        for (std::size_t k = 0; k < inputs_.size(); ++k) {
            const ImageOrder part = order_of(inputs_[k]);
            cuda::copy_columns(support_.stream(), traits_.output.type,
                               {.rows = slice.samples * part.pixels,
                                .width = part.channels,
                                .filled = part.channels,
                                .from_stride = part.stored,
                                .to_stride = whole.stored,
                                .to_column = column},
                               slice.output, slice.inputs[k]);
            column += part.channels;
        }
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        const ImageOrder whole = order_of(traits_.output);
        std::int64_t column = 0;
        for (std::size_t k = 0; k < inputs_.size(); ++k) {
            const ImageOrder part = order_of(inputs_[k]);
            if (slice.input_gradients[k] != nullptr) {
                cuda::copy_columns(support_.stream(), traits_.output.type,
                                   {.rows = slice.samples * part.pixels,
                                    .width = part.channels,
                                    .filled = part.stored,
                                    .from_stride = whole.stored,
                                    .from_column = column,
                                    .to_stride = part.stored},
                                   slice.input_gradients[k], slice.output_gradient);
            }
            column += part.channels;
        }
    }

private:
    std::vector<TensorFormat> inputs_;
    cuda::Support& support_;
};

}  // namespace

MadeKernel make_cuda_kernel(const ConcatSpec& /*spec*/, const KernelContext& context) {
    return std::make_unique<ConcatCuda>(context);
}

}  // namespace cohort
