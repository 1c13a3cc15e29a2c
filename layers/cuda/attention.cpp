// Attention on a GPU: cuDNN's fused engines where it has them, else products. Both keep the same
// for backward: of every row of scores the logarithm of what divided it.
#include <algorithm>

#include "layers/cuda/dnn/attention_plans.hpp"
#include "layers/cuda/dnn/attention_products.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class AttentionCuda final : public Kernel {
public:
    AttentionCuda(const AttentionSpec& spec, const KernelContext& context)
        : training_(context.training), plans_(spec, context), products_(spec, context) {
        const TensorFormat& joined = context.inputs.at(0);
        traits_.output = {Shape{joined.shape[0], joined.shape[1] / 3}, 1, joined.type};
        traits_.backward_reads_output = plans_.possible();
        traits_.saved_bytes =
            training_
                ? static_cast<std::size_t>(spec.options.heads * joined.shape[0]) * sizeof(float)
                : 0;
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        KernelMemory memory;
        for (const std::int64_t samples : slice_sizes) {
            plans_.prepare(samples);
            const bool forward = plans_.has_forward(samples);
            const bool backward = plans_.has_backward(samples);
            const KernelMemory products =
                forward && (backward || !training_) ? KernelMemory{} : products_.prepare(samples);
            memory.forward_scratch =
                std::max(memory.forward_scratch,
                         forward ? plans_.forward_scratch(samples) : products.forward_scratch);
            memory.backward_scratch =
                std::max(memory.backward_scratch,
                         backward ? plans_.backward_scratch(samples) : products.backward_scratch);
        }
        return memory;
    }

    void forget(std::int64_t samples) override {
        plans_.forget(samples);
        products_.forget(samples);
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        if (plans_.has_forward(slice.samples)) {
            plans_.forward(slice);
        } else {
            products_.forward(slice);
        }
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        if (slice.input_gradients[0] == nullptr) {
            return;
        }
        if (plans_.has_backward(slice.samples)) {
            plans_.backward(slice);
        } else {
            products_.backward(slice);
        }
    }

private:
    bool training_;
    cuda::AttentionPlans plans_;
    cuda::AttentionProducts products_;
};

}  // namespace

MadeKernel make_cuda_kernel(const AttentionSpec& spec, const KernelContext& context) {
    return std::make_unique<AttentionCuda>(spec, context);
}

}  // namespace cohort
