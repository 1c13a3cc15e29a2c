// 2-D convolution on a GPU through cuDNN's graphs; images have channels last, filters are copies
// [K, R, S, C/groups] of the flat buffer's (see WeightForm).
//
// Bias and ReLU are part of the graph where an engine with them is measured to be faster and keeps
// NaN; else a kernel of our own follows. Backward: that kernel's counterpart masks the gradient and
// sums the bias gradient, then the filters' gradient is made, then the input's. The filters' is of
// the activations' type, as no precompiled engine of cuDNN makes single precision of 16 bits.
#include <algorithm>
#include <map>
#include <utility>

#include "cohort/core/error.hpp"
#include "layers/cuda/dnn/conv_graphs.hpp"
#include "layers/cuda/dnn/dnn_choice.hpp"
#include "layers/cuda/kernels/conv_kernels.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace cuda {
namespace {

/// Asks for the plans of a convolution's three directions.
class ConvRequests {
public:
    ConvRequests(const ConvSpec& spec, Support& support, TuningCache* tuning)
        : spec_(spec), support_(support), tuning_(tuning) {}

    /// Something follows the convolution itself.
    [[nodiscard]] bool has_tail() const { return spec_.options.bias || spec_.relu; }

    /// @param rows  of the output
    const ChosenPlan& forward(const ConvProblem& wanted, const RowProblem& rows) {
        constexpr std::array kNames{"forward", "forward bias", "forward bias relu", "forward relu"};
        PlanRequest asked = request(kNames[static_cast<std::size_t>(tail())], wanted);
        asked.tensors = {image_of(wanted), filter_of(wanted), bias_of(wanted), result_of(wanted)};
        asked.variants = [this, wanted, rows] {
            std::vector<PlanVariant> variants;
            variants.push_back(
                {.graph = forward_graph(support_.dnn_target(), wanted, ConvTail::kNone),
                 .rest = tail_alone(rows)});
            if (has_tail() && !support_.deterministic()) {
                add_fused(wanted, variants);
            }
            return variants;
        };
        return support_.plans().get(support_, asked);
    }

    const ChosenPlan& data(const ConvProblem& wanted) {
        PlanRequest asked = request("gradient of input", wanted);
        asked.tensors = {result_of(wanted), filter_of(wanted), image_of(wanted)};
        asked.variants = [this, wanted] {
            return one_variant(data_graph(support_.dnn_target(), wanted));
        };
        return support_.plans().get(support_, asked);
    }

    const ChosenPlan& filter(const ConvProblem& wanted) {
        PlanRequest asked = request("gradient of weight", wanted);
        asked.tensors = {image_of(wanted), result_of(wanted), filter_of(wanted)};
        asked.variants = [this, wanted] {
            return one_variant(filter_graph(support_.dnn_target(), wanted));
        };
        return support_.plans().get(support_, asked);
    }

private:
    [[nodiscard]] ConvTail tail() const {
        return spec_.options.bias ? (spec_.relu ? ConvTail::kBiasRelu : ConvTail::kBias)
               : spec_.relu       ? ConvTail::kRelu
                                  : ConvTail::kNone;
    }

    [[nodiscard]] PlanRequest request(const std::string& what, const ConvProblem& wanted) const {
        const Precision precision = support_.precision();
        return {.what = "conv " + what + " " + problem_text(wanted) + " " +
                        std::string(word_of(precision)),
                .rules = {.tensor_cores = precision != Precision::kF32,
                          .deterministic = support_.deterministic()},
                .variants = {},
                .tensors = {},
                .tuning = tuning_};
    }

    [[nodiscard]] std::function<void(std::span<void* const>)> tail_alone(const RowProblem& rows) {
        if (!has_tail()) {
            return {};
        }
        return [this, rows](std::span<void* const> memory) {
            const auto* sums = static_cast<const float*>(memory[2]);
            add_bias_relu(support_.stream(), rows, spec_.options.bias ? sums : nullptr, spec_.relu,
                          memory[3]);
        };
    }
    /// Nothing where cuDNN does not know the graph.
    void add_fused(const ConvProblem& wanted, std::vector<PlanVariant>& variants) {
        try {
            variants.push_back({.graph = forward_graph(support_.dnn_target(), wanted, tail()),
                                .rest = {},
                                .must_keep_nan = spec_.relu});
        } catch (const DeviceError&) {
            return;
        }
    }

    [[nodiscard]] static std::vector<PlanVariant> one_variant(
        std::shared_ptr<const DnnGraph> graph) {
        std::vector<PlanVariant> variants;
        variants.push_back({.graph = std::move(graph), .rest = {}});
        return variants;
    }

    const ConvSpec& spec_;
    Support& support_;
    TuningCache* tuning_;
};

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
        if (packs() && training_ && input_gradient_) {
            fail<DeviceError>({.where = "conv",
                               .what =
                                   "on a GPU a convolution in groups has no gradient of an input "
                                   "whose channels are padded",
                               .hint = "a convolution without groups before it"});
        }
        const auto [height, width] = conv_extents(spec.options, input_.shape);
        const Shape output{spec.options.channels, height, width};
        traits_.output = {output, spec.options.channels, input_.type};
        traits_.backward_reads_output = spec.relu;
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
            memory.forward_scratch = std::max(
                memory.forward_scratch, packed_bytes(samples) + plans.forward->plan->workspace());
            if (training_) {
                memory.backward_scratch =
                    std::max(memory.backward_scratch, backward_bytes(samples, plans));
            }
        }
        return memory;
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const ChosenPlan& chosen = *plans_.at(slice.samples).forward;
        const DnnPlace places[] = {{kImage, packed_input(slice)},
                                   {kFilter, const_cast<void*>(support_.weight(weight_))},
                                   {kBias, const_cast<float*>(bias())},
                                   {kResult, slice.output}};
        chosen.plan->run(support_.dnn_handle(), places,
                         slice.scratch + packed_bytes(slice.samples));
        if (chosen.variant == 0 && requests_.has_tail()) {
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
        if (slice.input_gradients[0] == nullptr) {
            return;
        }
        const DnnPlace places[] = {{kResult, slice.output_gradient},
                                   {kFilter, const_cast<void*>(support_.weight(weight_))},
                                   {kImage, slice.input_gradients[0]}};
        plans.data->plan->run(support_.dnn_handle(), places, slice.scratch);
    }

private:
    /// Of one batch size; they belong to the support.
    struct Plans {
        const ChosenPlan* forward = nullptr;
        const ChosenPlan* data = nullptr;  ///< nullptr: never asked for
        const ChosenPlan* filter = nullptr;
    };

    // Channels that pad the network's input are zeros: the filters have zeros for them, too. With
    // groups they would belong to none, so such an input is copied without its gaps.
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
            plans.data == nullptr ? std::size_t{0} : plans.data->plan->workspace();
        const std::size_t filter =
            packed_bytes(samples) + filter_bytes() + plans.filter->plan->workspace();
        return std::max({sums, data, filter});
    }

    void filter_gradient(const KernelSlice& slice, const ChosenPlan& chosen) {
        const WeightForm made = form(input_.type);
        std::byte* place = slice.scratch + packed_bytes(slice.samples);
        void* target = made.as_is() ? static_cast<void*>(binding_.gradients[0]) : place;
        const DnnPlace places[] = {
            {kImage, packed_input(slice)}, {kResult, slice.output_gradient}, {kFilter, target}};
        chosen.plan->run(support_.dnn_handle(), places, place + filter_bytes());
        if (!made.as_is()) {
            support_.store_gradient(made, target, binding_.gradients[0]);
        }
    }

    const Plans& plans_for(std::int64_t samples) {
        Plans& plans = plans_[samples];
        if (plans.forward == nullptr) {
            const ConvProblem wanted = problem(samples);
            plans.forward = &requests_.forward(wanted, rows(samples));
            if (training_) {
                plans.filter = &requests_.filter(wanted);
            }
            if (training_ && input_gradient_) {
                plans.data = &requests_.data(wanted);
            }
        }
        return plans;
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
