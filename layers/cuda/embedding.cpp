// Embedding on a GPU: rows of the table, which is read in single precision as it is. The gradient
// is cleared, then the rows of tokens that occur are summed, in the order of their places.
#include <algorithm>

#include "core/tensor/cuda.hpp"
#include "layers/cuda/kernels/text_kernels.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class EmbeddingCuda final : public Kernel {
public:
    EmbeddingCuda(const EmbeddingSpec& spec, const KernelContext& context)
        : positions_(context.inputs.at(0).shape[0]),
          features_(spec.options.features),
          table_bytes_(static_cast<std::size_t>(spec.vocabulary * features_) * sizeof(float)),
          training_(context.training),
          support_(cuda::support_of(context)) {
        traits_.output = {Shape{positions_, features_}, 1, activation_type(context.precision)};
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        const std::int64_t most = *std::max_element(slice_sizes.begin(), slice_sizes.end());
        return {.backward_scratch = training_ ? cuda::row_sum_scratch(most * positions_) : 0};
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        cuda::gather_rows(support_.stream(), traits_.output.type, rows_of(slice),
                          binding_.parameters[0], slice.output);
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        float* gradient = binding_.gradients[0];
        if (!binding_.adds) {
            cuda::check(cudaMemsetAsync(gradient, 0, table_bytes_, support_.stream()),
                        "cudaMemsetAsync");
        }
        cuda::add_rows(support_.stream(), traits_.output.type, rows_of(slice),
                       slice.output_gradient, gradient, slice.scratch);
    }

private:
    [[nodiscard]] cuda::TokenRows rows_of(const KernelSlice& slice) const {
        return {.tokens = reinterpret_cast<const std::int32_t*>(slice.inputs[0]),
                .count = slice.samples * positions_,
                .features = features_};
    }

    std::int64_t positions_;
    std::int64_t features_;
    std::size_t table_bytes_;
    bool training_;
    cuda::Support& support_;
};

}  // namespace

MadeKernel make_cuda_kernel(const EmbeddingSpec& spec, const KernelContext& context) {
    return std::make_unique<EmbeddingCuda>(spec, context);
}

}  // namespace cohort
