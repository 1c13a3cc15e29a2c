// Linear layer on a GPU: products by cuBLASLt, with a bias that no ReLU follows in their epilogue
// where it has an algorithm for that. A sequence [T,F] is T rows with one weight. The weight's
// gradient is single precision and goes straight to the flat buffer.
#include <algorithm>
#include <map>

#include "layers/cuda/dnn/product.hpp"
#include "layers/cuda/kernels/element_kernels.hpp"
#include "layers/cuda/kernels/linear_kernels.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"
#include "tensor/cuda.hpp"

namespace cohort {
namespace {

class LinearCuda final : public Kernel {
public:
    LinearCuda(const LinearSpec& spec, const KernelContext& context)
        : spec_(spec),
          context_(context),
          support_(cuda::support_of(context)),
          positions_(context.inputs.at(0).shape.rank() == 2 ? context.inputs[0].shape[0] : 1),
          inputs_(context.inputs[0].shape.elements() / positions_),
          outputs_(spec.options.features),
          type_(context.inputs[0].type) {
        const bool sequence = context.inputs[0].shape.rank() == 2;
        traits_.output = {sequence ? Shape{positions_, outputs_} : Shape{outputs_}, 1, type_};
        traits_.backward_reads_output = spec.relu;
        traits_.weight_bytes = static_cast<std::size_t>(inputs_ * outputs_) * element_bytes(type_);
    }

    void bind(const KernelBinding& binding) override {
        binding_ = binding;
        weight_ = support_.want_weight(
            binding.parameters[0],
            {.outer = outputs_, .channels = inputs_, .padded_channels = inputs_, .type = type_});
        if (wanted_epilogue() == cuda::Epilogue::kBias) {
            bias_ = support_.want_weight(
                binding.parameters[1],
                {.outer = 1, .channels = outputs_, .padded_channels = outputs_, .type = type_});
        }
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        KernelMemory memory;
        for (const std::int64_t samples : slice_sizes) {
            auto found = products_.find(samples);
            if (found == products_.end()) {
                found = products_.emplace(samples, make(samples * positions_)).first;
            }
            const Products& made = found->second;
            memory.forward_scratch =
                std::max(memory.forward_scratch, made.forward->scratch_bytes());
            if (context_.training) {
                memory.backward_scratch =
                    std::max({memory.backward_scratch, made.weight->scratch_bytes(),
                              made.input == nullptr ? 0 : made.input->scratch_bytes(),
                              cuda::column_sum_scratch(samples * positions_, outputs_)});
            }
        }
        return memory;
    }

    void forget(std::int64_t samples) override { products_.erase(samples); }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const Products& made = products_.at(slice.samples);
        const void* bias =
            wanted_epilogue() == cuda::Epilogue::kBias ? support_.weight(bias_) : nullptr;
        made.forward->run(slice.inputs[0], support_.weight(weight_), slice.output, bias,
                          slice.scratch);
        if (!spec_.relu && made.forward->epilogue() == wanted_epilogue()) {
            return;
        }
        const std::int64_t rows = slice.samples * positions_;
        if (spec_.options.bias) {
            cuda::add_bias(support_.stream(), type_, slice.output, binding_.parameters[1], rows,
                           outputs_, spec_.relu);
        } else {
            cuda::relu_elements(support_.stream(), type_, slice.output, slice.output,
                                rows * outputs_);
        }
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        const Products& made = products_.at(slice.samples);
        const std::int64_t rows = slice.samples * positions_;
        if (spec_.relu) {
            cuda::relu_mask_elements(support_.stream(), type_, slice.output_gradient, slice.output,
                                     slice.output_gradient, rows * outputs_);
        }
        made.weight->run(slice.output_gradient, slice.inputs[0], binding_.gradients[0], nullptr,
                         slice.scratch);
        if (spec_.options.bias) {
            cuda::sum_columns(support_.stream(), type_, binding_.gradients[1],
                              slice.output_gradient, rows, outputs_, slice.scratch);
        }
        if (slice.input_gradients[0] != nullptr) {
            made.input->run(slice.output_gradient, support_.weight(weight_),
                            slice.input_gradients[0], nullptr, slice.scratch);
        }
    }

private:
    /// Of one number of samples.
    struct Products {
        std::unique_ptr<cuda::Product> forward;
        std::unique_ptr<cuda::Product> weight;  ///< null in inference
        std::unique_ptr<cuda::Product> input;   ///< null when no layer needs it
    };

    /// A ReLU is added by a kernel of our own (see Epilogue), and the bias along with it.
    [[nodiscard]] cuda::Epilogue wanted_epilogue() const {
        return spec_.options.bias && !spec_.relu ? cuda::Epilogue::kBias : cuda::Epilogue::kNone;
    }

    [[nodiscard]] Products make(std::int64_t rows) const {
        const auto product = [&](const cuda::ProductShape& shape) {
            return std::make_unique<cuda::Product>(shape, context_);
        };
        Products made;
        made.forward = product({.rows = rows,
                                .columns = outputs_,
                                .depth = inputs_,
                                .transpose_b = true,
                                .in = type_,
                                .out = type_,
                                .epilogue = wanted_epilogue()});
        if (context_.training) {
            made.weight = product({.rows = outputs_,
                                   .columns = inputs_,
                                   .depth = rows,
                                   .transpose_a = true,
                                   .in = type_});
        }
        if (context_.training && context_.input_gradient) {
            made.input = product(
                {.rows = rows, .columns = inputs_, .depth = outputs_, .in = type_, .out = type_});
        }
        return made;
    }

    LinearSpec spec_;
    KernelContext context_;
    cuda::Support& support_;
    std::int64_t positions_;  ///< of a sample
    std::int64_t inputs_;
    std::int64_t outputs_;
    ElementType type_;
    int weight_ = 0;  ///< numbers of the copies
    int bias_ = 0;    ///< that of the epilogue
    std::map<std::int64_t, Products> products_;
};

}  // namespace

MadeKernel make_cuda_kernel(const LinearSpec& spec, const KernelContext& context) {
    return std::make_unique<LinearCuda>(spec, context);
}

}  // namespace cohort
