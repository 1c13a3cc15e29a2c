// Linear layer on a GPU. A sequence [T,F] is T rows with one weight.
#include <algorithm>

#include "layers/cuda/dnn/linear_products.hpp"
#include "layers/cuda/kernels/element_kernels.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class LinearCuda final : public Kernel {
public:
    LinearCuda(const LinearSpec& spec, const KernelContext& context)
        : relu_(spec.relu),
          training_(context.training),
          support_(cuda::support_of(context)),
          positions_(context.inputs.at(0).shape.rank() == 2 ? context.inputs[0].shape[0] : 1),
          outputs_(spec.options.features),
          products_(spec, context, context.inputs[0].shape.elements() / positions_) {
        const auto& [shape, block, type] = context.inputs[0];
        traits_.output = {shape.rank() == 2 ? Shape{positions_, outputs_} : Shape{outputs_}, 1,
                          type};
        traits_.backward_reads_output = relu_;
        traits_.weight_bytes = static_cast<std::size_t>(shape.elements() / positions_ * outputs_) *
                               element_bytes(type);
    }

    void bind(const KernelBinding& binding) override {
        binding_ = binding;
        products_.bind(binding);
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        KernelMemory memory;
        for (const std::int64_t samples : slice_sizes) {
            const std::int64_t rows = samples * positions_;
            products_.prepare(rows);
            memory.forward_scratch =
                std::max(memory.forward_scratch, products_.forward_scratch(rows));
            if (training_) {
                memory.backward_scratch =
                    std::max(memory.backward_scratch, products_.backward_scratch(rows));
            }
        }
        return memory;
    }

    void forget(std::int64_t samples) override { products_.forget(samples * positions_); }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        products_.forward(slice.samples * positions_, slice.inputs[0], slice.output, slice.scratch);
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        const std::int64_t rows = slice.samples * positions_;
        if (relu_) {
            cuda::relu_mask_elements(support_.stream(), traits_.output.type, slice.output_gradient,
                                     slice.output, slice.output_gradient, rows * outputs_);
        }
        products_.backward({.rows = rows,
                            .input = slice.inputs[0],
                            .output_gradient = slice.output_gradient,
                            .input_gradient = slice.input_gradients[0],
                            .adds_weight = binding_.adds},
                           slice.scratch);
    }

private:
    bool relu_;
    bool training_;
    cuda::Support& support_;
    std::int64_t positions_;  ///< of a sample
    std::int64_t outputs_;
    cuda::LinearProducts products_;
};

}  // namespace

MadeKernel make_cuda_kernel(const LinearSpec& spec, const KernelContext& context) {
    return std::make_unique<LinearCuda>(spec, context);
}

}  // namespace cohort
