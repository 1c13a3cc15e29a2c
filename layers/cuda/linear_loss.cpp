// The last linear layer of a language model and its softmax cross entropy on a GPU: logits of few
// samples exist at a time. For each of these parts: logits, loss and their gradient in their place,
// then the layer's gradients, which the first part assigns and later ones add to.
#include <algorithm>

#include "cohort/core/error.hpp"
#include "layers/cuda/dnn/linear_products.hpp"
#include "layers/cuda/rules/part_sizes.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class LinearLossCuda final : public Kernel {
public:
    LinearLossCuda(const LinearSpec& spec, const KernelContext& context)
        : positions_(context.inputs.at(0).shape[0]),
          features_(context.inputs[0].shape[1]),
          classes_(spec.options.features),
          type_(context.inputs[0].type),
          products_(spec, context, features_) {
        // Of F V numbers of the weight's gradient 8 bytes are read and written per part, of the
        // V logits of a row 12 and more (written, read twice, replaced, read twice, 2 bytes each):
        // with 4 F rows the gradient is a sixth of the traffic.
        const std::int64_t unit = aligned_samples();
        parts_ = cuda::PartSizes(
            (std::max<std::int64_t>(4 * features_ / positions_, 1) + unit - 1) / unit * unit);
        traits_.output = {Shape{positions_, classes_}, 1, type_};
        traits_.forward_passes = 0;  // its output is never in memory
        traits_.weight_bytes =
            static_cast<std::size_t>(features_ * classes_) * element_bytes(type_);
    }

    void bind(const KernelBinding& binding) override {
        binding_ = binding;
        products_.bind(binding);
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        KernelMemory memory;
        for (const std::int64_t samples : slice_sizes) {
            for (const std::int64_t part : parts_.add(samples)) {
                const std::int64_t rows = part * positions_;
                products_.prepare(rows);
                memory.backward_scratch =
                    std::max(memory.backward_scratch,
                             logit_bytes(rows) + std::max(products_.forward_scratch(rows),
                                                          products_.backward_scratch(rows)));
            }
        }
        return memory;
    }

    void forget(std::int64_t batch) override {
        for (const std::int64_t part : parts_.remove(batch)) {
            products_.forget(part * positions_);
        }
    }

    void forward(int /*pass*/, const KernelSlice& /*slice*/) override {
        check_invariant(false, "a fused loss has no forward pass of its own");
    }
    void backward(int /*pass*/, const KernelSlice& /*slice*/) override {
        check_invariant(false, "a fused loss wants labels");
    }

    LossSums backward_with_loss(const KernelSlice& slice, const LossSlice& labels,
                                LossKernel& loss) override {
        auto* logits = reinterpret_cast<float*>(slice.scratch);
        for (std::int64_t first = 0; first < slice.samples; first += parts_.most()) {
            const std::int64_t samples = std::min(parts_.most(), slice.samples - first);
            const std::int64_t rows = samples * positions_;
            std::byte* scratch = slice.scratch + logit_bytes(rows);
            const void* input = at(slice.inputs[0], first);
            products_.forward(rows, input, logits, scratch);
            LossSlice part = labels;
            part.samples = samples;
            part.logits = logits;
            part.labels += first * positions_;
            part.gradient = logits;
            loss.run(part);
            products_.backward({.rows = rows,
                                .input = input,
                                .output_gradient = logits,
                                .input_gradient = at(slice.input_gradients[0], first),
                                .adds_weight = first > 0 || binding_.adds,
                                .adds_bias = first > 0},
                               scratch);
        }
        return {};
    }

private:
    /// Parts of so many samples begin at multiples of the 16 bytes that products rely on.
    [[nodiscard]] std::int64_t aligned_samples() const {
        const auto bytes = static_cast<std::size_t>(positions_ * features_) * element_bytes(type_);
        std::size_t samples = 1;
        while (samples * bytes % 16 != 0) {
            samples *= 2;
        }
        return static_cast<std::int64_t>(samples);
    }
    [[nodiscard]] std::size_t logit_bytes(std::int64_t rows) const {
        return cuda::padded(static_cast<std::size_t>(rows * classes_) * element_bytes(type_));
    }
    /// The features of a sample, from the first of a tensor on; null of none.
    [[nodiscard]] void* at(const float* tensor, std::int64_t sample) const {
        const auto elements = static_cast<std::size_t>(sample * positions_ * features_);
        return tensor == nullptr ? nullptr
                                 : reinterpret_cast<std::byte*>(const_cast<float*>(tensor)) +
                                       elements * element_bytes(type_);
    }

    std::int64_t positions_;
    std::int64_t features_;
    std::int64_t classes_;
    ElementType type_;
    cuda::PartSizes parts_{1};
    cuda::LinearProducts products_;
};

}  // namespace

MadeKernel make_cuda_linear_loss(const LinearSpec& spec, const KernelContext& context) {
    return std::make_unique<LinearLossCuda>(spec, context);
}

}  // namespace cohort
