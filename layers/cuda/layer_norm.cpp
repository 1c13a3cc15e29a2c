// Layer normalisation on a GPU: own kernels, statistics and sums in single precision. Memory: mean
// and inverse deviation of every row.
#include <algorithm>

#include "layers/cuda/kernels/layer_norm_kernels.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class LayerNormCuda final : public Kernel {
public:
    LayerNormCuda(const LayerNormSpec& spec, const KernelContext& context)
        : epsilon_(spec.options.epsilon),
          features_(context.inputs.at(0).shape[context.inputs[0].shape.rank() - 1]),
          rows_(context.inputs[0].shape.elements() / features_),
          training_(context.training),
          support_(cuda::support_of(context)) {
        traits_.output = context.inputs[0];
        traits_.saved_bytes = training_ ? static_cast<std::size_t>(2 * rows_) * sizeof(float) : 0;
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        const std::int64_t most = *std::max_element(slice_sizes.begin(), slice_sizes.end());
        return {.backward_scratch =
                    training_ ? cuda::layer_norm_scratch(most * rows_, features_) : 0};
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        cuda::layer_norm_forward(support_.stream(), rows_of(slice), epsilon_,
                                 binding_.parameters[1], slice.output);
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        const cuda::NormRows rows = rows_of(slice);
        cuda::layer_norm_sums(support_.stream(), rows, slice.output_gradient, binding_.gradients[0],
                              binding_.gradients[1], slice.scratch);
        if (slice.input_gradients[0] != nullptr) {
            cuda::layer_norm_backward(support_.stream(), rows, slice.output_gradient,
                                      slice.input_gradients[0]);
        }
    }

private:
    [[nodiscard]] cuda::NormRows rows_of(const KernelSlice& slice) const {
        return {.rows = slice.samples * rows_,
                .features = features_,
                .type = traits_.output.type,
                .input = slice.inputs[0],
                .statistics = reinterpret_cast<float*>(slice.saved),
                .weight = binding_.parameters[0]};
    }

    float epsilon_;
    std::int64_t features_;
    std::int64_t rows_;  ///< of a sample
    bool training_;
    cuda::Support& support_;
};

}  // namespace

MadeKernel make_cuda_kernel(const LayerNormSpec& spec, const KernelContext& context) {
    return std::make_unique<LayerNormCuda>(spec, context);
}

}  // namespace cohort
