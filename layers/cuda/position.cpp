// Positions on a GPU: a table, learned or of waves, is added to every sample.
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/tensor/cuda.hpp"
#include "layers/cuda/kernels/linear_kernels.hpp"
#include "layers/cuda/kernels/text_kernels.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class PositionCuda final : public Kernel {
public:
    PositionCuda(const PositionSpec& spec, const KernelContext& context)
        : options_(spec.options),
          elements_(context.inputs.at(0).shape.elements()),
          training_(context.training),
          support_(cuda::support_of(context)) {
        traits_.output = context.inputs[0];
        traits_.backward_reads_inputs = false;
        traits_.pass_through_input = options_.scale == 1.0F ? 0 : -1;
        if (!options_.learned) {
            upload(position_waves(context.inputs[0].shape));
        }
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        const std::int64_t most = *std::max_element(slice_sizes.begin(), slice_sizes.end());
        return {.backward_scratch =
                    options_.learned && training_ ? cuda::column_sum_scratch(most, elements_) : 0};
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const float* table =
            options_.learned ? binding_.parameters[0] : static_cast<const float*>(waves_.data());
        cuda::add_table(support_.stream(), traits_.output.type, slice.output, slice.inputs[0],
                        table, options_.scale, slice.samples, elements_);
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        const ElementType type = traits_.output.type;
        if (options_.learned) {
            cuda::sum_columns(support_.stream(), type, binding_.gradients[0], slice.output_gradient,
                              slice.samples, elements_, slice.scratch);
        }
        if (options_.scale != 1.0F && slice.input_gradients[0] != nullptr) {
            cuda::scale_elements(support_.stream(), type, slice.input_gradients[0],
                                 slice.output_gradient, options_.scale, slice.samples * elements_);
        }
    }

private:
    void upload(const std::vector<float>& table) {
        const std::size_t bytes = table.size() * sizeof(float);
        const Buffer staging = support_.device().allocate_host(bytes);
        std::memcpy(staging.data(), table.data(), bytes);
        waves_ = support_.device().allocate(bytes);
        support_.queue().copy(waves_.data(), staging.data(), bytes);
        support_.queue().synchronize();
    }

    PositionOptions options_;
    std::int64_t elements_;  ///< of a sample
    bool training_;
    cuda::Support& support_;
    Buffer waves_;  ///< sines and cosines, single precision
};

}  // namespace

MadeKernel make_cuda_kernel(const PositionSpec& spec, const KernelContext& context) {
    return std::make_unique<PositionCuda>(spec, context);
}

}  // namespace cohort
