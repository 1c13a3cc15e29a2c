// 2-D convolution on a GPU through cuDNN's graphs; images have channels last, filters are copies
// [K, R, S, C/groups] of the flat buffer's (see WeightForm).
//
// Bias and ReLU are part of the graph where the output is large and an engine with them is measured
// to be faster and keeps NaN; else a kernel of our own follows. Backward: that kernel's counterpart
// masks the gradient and sums the bias gradient, then the filters' gradient is made, then the
// input's. The filters' is of the activations' type where cuDNN makes it, as none of its
// precompiled engines makes single precision of 16 bits.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "layers/cuda/dnn/conv_requests.hpp"
#include "layers/cuda/kernels/matrix_kernels.hpp"
#include "layers/cuda/kernels/weight_copies.hpp"

namespace cohort {
namespace cuda {
namespace {

class ConvCuda final : public Kernel {
public:
    ConvCuda(const ConvSpec& spec, const KernelContext& context)
        : spec_(spec),
          support_(support_of(context)),
          input_(context.inputs.at(0)),
          stored_(order_of(input_).stored),
          requests_(spec_, support_, context.tuning),
          training_(context.training),
          input_gradient_(context.input_gradient),
          multiprocessors_(gpu_facts(context.device).multiprocessors) {
        const auto [height, width] = conv_extents(spec.options, input_.shape);
        const Shape output{spec.options.channels, height, width};
        traits_.output = {output, spec.options.channels, input_.type};
        traits_.backward_reads_output = spec.relu;
        traits_.adding_input = packs() ? -1 : 0;
        traits_.weight_bytes =
            static_cast<std::size_t>(form(input_.type).elements()) * element_bytes(input_.type);
    }

    void bind(const KernelBinding& binding) override {
        binding_ = binding;
        weight_ = support_.want_weight(binding.parameters[0], form(input_.type));
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        KernelMemory memory;
        for (const std::int64_t samples : slice_sizes) {
            const Plans& plans = plans_for(samples);
            memory.forward_scratch = std::max(memory.forward_scratch,
                                              packed_bytes(samples) + plans.forward->workspace());
            if (training_) {
                memory.backward_scratch =
                    std::max(memory.backward_scratch, backward_bytes(samples, plans));
            }
        }
        return memory;
    }

    void forget(std::int64_t samples) override { plans_.erase(samples); }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const ChosenPlan& chosen = *plans_.at(slice.samples).forward;
        void* image = packed_input(slice);
        void* filter = const_cast<void*>(support_.weight(weight_));
        if (chosen.kind == kDepthwise) {
            depthwise_forward(support_.stream(), depthwise(slice.samples), image, filter,
                              slice.output);
        } else {
            const DnnPlace places[] = {{kImage, image},
                                       {kFilter, filter},
                                       {kBias, const_cast<float*>(bias())},
                                       {kResult, slice.output}};
            chosen.plan->run(support_.dnn_handle(), places,
                             slice.scratch + packed_bytes(slice.samples));
        }
        if (chosen.kind != kGraphWithTail && requests_.has_tail()) {
            add_bias_relu(support_.stream(), rows(slice.samples), bias(), spec_.relu, slice.output);
        }
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        const Plans& plans = plans_.at(slice.samples);
        if (requests_.has_tail()) {
            relu_bias_gradient(support_.stream(), rows(slice.samples), spec_.relu, slice.output,
                               slice.output_gradient, reinterpret_cast<float*>(slice.scratch),
                               spec_.options.bias ? binding_.gradients[1] : nullptr);
        }
        filter_gradient(slice, *plans.filter);
        if (slice.input_gradients[0] != nullptr) {
            input_gradient(slice, *plans.data);
        }
    }

private:
    /// Of one batch size; shared with equal layers.
    struct Plans {
        ConvRequests::Plan forward;
        ConvRequests::Plan data;  ///< null: never asked for
        ConvRequests::Plan filter;
    };

    // Channels that pad the network's input are zeros: the filters have zeros for them, too. With
    // groups they would belong to none, so such an input is copied without its gaps, and its
    // gradient gets them afterwards.
    [[nodiscard]] bool packs() const {
        return spec_.options.groups > 1 && stored_ != input_.shape[0];
    }
    [[nodiscard]] std::size_t packed_bytes(std::int64_t samples) const {
        return packs() ? padded(static_cast<std::size_t>(samples * input_.shape.elements()) *
                                element_bytes(input_.type))
                       : 0;
    }
    /// The input as cuDNN reads it; a copy lies at the beginning of the scratch memory.
    [[nodiscard]] void* packed_input(const KernelSlice& slice) const {
        if (!packs()) {
            return const_cast<float*>(slice.inputs[0]);
        }
        const Shape& x = input_.shape;
        const std::size_t element = element_bytes(input_.type);
        const std::size_t row = static_cast<std::size_t>(x[0]) * element;
        check(cudaMemcpy2DAsync(slice.scratch, row, slice.inputs[0],
                                static_cast<std::size_t>(stored_) * element, row,
                                static_cast<std::size_t>(slice.samples * x[1] * x[2]),
                                cudaMemcpyDeviceToDevice, support_.stream()),
              "cudaMemcpy2DAsync");
        return slice.scratch;
    }

    [[nodiscard]] ConvProblem problem(std::int64_t samples) const {
        const Shape& y = traits_.output.shape;
        return {.samples = samples,
                .channels = packs() ? input_.shape[0] : stored_,
                .height = input_.shape[1],
                .width = input_.shape[2],
                .out_height = y[1],
                .out_width = y[2],
                .options = spec_.options,
                .type = input_.type};
    }
    [[nodiscard]] RowProblem rows(std::int64_t samples) const {
        const Shape& y = traits_.output.shape;
        const std::int64_t count = samples * y[1] * y[2];
        return {.rows = count,
                .channels = y[0],
                .type = input_.type,
                .tiles = channel_tiles(count, y[0], input_.type, multiprocessors_)};
    }
    [[nodiscard]] WeightForm form(ElementType type) const {
        const ConvOptions& o = spec_.options;
        const std::int64_t channels = input_.shape[0] / o.groups;
        return {.outer = o.channels,
                .channels = channels,
                .inner = o.kernel.cells(),
                .padded_channels = o.groups > 1 ? channels : stored_,
                .channels_last = true,
                .type = type};
    }
    [[nodiscard]] const float* bias() const {
        return spec_.options.bias ? binding_.parameters[1] : nullptr;
    }
    /// Of the filters' gradient before it goes to the flat buffer; 0: it is made there.
    [[nodiscard]] std::size_t filter_bytes() const {
        const WeightForm made = form(input_.type);
        return made.as_is()
                   ? 0
                   : padded(static_cast<std::size_t>(made.elements()) * element_bytes(made.type));
    }
    [[nodiscard]] std::size_t backward_bytes(std::int64_t samples, const Plans& plans) const {
        const std::size_t sums =
            spec_.options.bias ? bias_partial_bytes(rows(samples)) : std::size_t{0};
        const std::size_t data =
            plans.data == nullptr ? std::size_t{0}
                                  : gradient_bytes(samples, *plans.data) + plans.data->workspace();
        const std::size_t filter =
            packed_bytes(samples) + (plans.filter->kind == kDepthwise
                                         ? depthwise_partial_bytes(depthwise(samples))
                                         : filter_bytes() + plans.filter->workspace());
        return std::max({sums, data, filter});
    }
    /// Of the input's gradient before it goes to its place; 0: it is made there.
    [[nodiscard]] std::size_t gradient_bytes(std::int64_t samples, const ChosenPlan& chosen) const {
        return chosen.kind == kGraphThenAdded
                   ? padded(static_cast<std::size_t>(samples) * input_.sample_bytes())
                   : packed_bytes(samples);
    }

    void filter_gradient(const KernelSlice& slice, const ChosenPlan& chosen) {
        std::byte* place = slice.scratch + packed_bytes(slice.samples);
        if (chosen.kind == kDepthwise) {
            depthwise_filter_gradient(support_.stream(), depthwise(slice.samples),
                                      packed_input(slice), slice.output_gradient,
                                      reinterpret_cast<float*>(place), binding_.gradients[0]);
            return;
        }
        const WeightForm made = form(input_.type);
        void* target = made.as_is() ? static_cast<void*>(binding_.gradients[0]) : place;
        const DnnPlace places[] = {
            {kImage, packed_input(slice)}, {kResult, slice.output_gradient}, {kFilter, target}};
        chosen.plan->run(support_.dnn_handle(), places, place + filter_bytes());
        if (!made.as_is()) {
            store_weight_gradient(support_.stream(), made, target, binding_.gradients[0]);
        }
    }

    void input_gradient(const KernelSlice& slice, const ChosenPlan& chosen) {
        const std::size_t before = gradient_bytes(slice.samples, chosen);
        void* target = before > 0 ? static_cast<void*>(slice.scratch) : slice.input_gradients[0];
        void* filter = const_cast<void*>(support_.weight(weight_));
        if (chosen.kind == kDepthwise) {
            depthwise_image_gradient(support_.stream(), depthwise(slice.samples),
                                     slice.output_gradient, filter, binding_.adds_input_gradient,
                                     target);
        } else {
            const DnnPlace places[] = {
                {kResult, slice.output_gradient}, {kFilter, filter}, {kImage, target}};
            chosen.plan->run(support_.dnn_handle(), places, slice.scratch + before);
        }
        if (chosen.kind == kGraphThenAdded) {
            support_.add_into(input_.type, slice.input_gradients[0], target,
                              slice.samples * input_.sample_floats());
        } else if (packs()) {
            const Shape& x = input_.shape;
            copy_columns(support_.stream(), input_.type,
                         {.rows = slice.samples * x[1] * x[2],
                          .width = x[0],
                          .filled = stored_,
                          .from_stride = x[0],
                          .to_stride = stored_},
                         slice.input_gradients[0], target);
        }
    }

    [[nodiscard]] DepthwiseProblem depthwise(std::int64_t samples) const {
        return *depthwise_problem(problem(samples), multiprocessors_);
    }

    const Plans& plans_for(std::int64_t samples) {
        const auto found = plans_.find(samples);
        if (found != plans_.end()) {
            return found->second;
        }
        const ConvProblem wanted = problem(samples);
        Plans made;
        made.forward = requests_.forward(wanted, rows(samples));
        if (training_) {
            made.filter = requests_.filter(wanted);
        }
        if (training_ && input_gradient_) {
            made.data = requests_.data(wanted, binding_.adds_input_gradient);
        }
        return plans_.emplace(samples, std::move(made)).first->second;
    }

    ConvSpec spec_;
    Support& support_;
    TensorFormat input_;
    std::int64_t stored_;  ///< channels of a pixel in memory
    ConvRequests requests_;
    bool training_;
    bool input_gradient_;
    int multiprocessors_;
    int weight_ = -1;  ///< number of the copy of the filters
    std::map<std::int64_t, Plans> plans_;
};

}  // namespace
}  // namespace cuda

MadeKernel make_cuda_kernel(const ConvSpec& spec, const KernelContext& context) {
    return std::make_unique<cuda::ConvCuda>(spec, context);
}

}  // namespace cohort
