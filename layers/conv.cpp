// 2-D convolution, and its kernel for the CPU through oneDNN.
//
// Activations stay in the blocked order [N, C/16, H, W, 16] between layers. The flat buffers hold
// weights in canonical order; they are reordered once per pass into memory shared by all slices.
// Weight gradients are summed per team member over its slices in order, then over the members in
// order, and reordered into the flat gradient: the result does not depend on timing.
//
// In Precision::kBf16 activations are bfloat16, and so are the reordered weights of a direction
// that runs in it; a direction that runs in single precision converts its tensors in scratch
// memory.
#include <algorithm>
#include <vector>

#include "cohort/core/error.hpp"
#include "layers/cpu/conv_primitives.hpp"
#include "layers/cpu/elements.hpp"
#include "layers/cpu/elementwise_cpu.hpp"
#include "layers/cpu/weight_reorder.hpp"
#include "layers/kernels.hpp"
#include "tensor/cpu_team.hpp"

namespace cohort {
namespace {

/// Where a convolution keeps what it makes of its weights in memory shared by all slices.
class ConvMemory {
public:
    ConvMemory(const ConvSpec& spec, const ConvPlan& plan, const KernelContext& context)
        : plan_(plan),
          input_gradient_(context.input_gradient),
          taps_(spec.options.kernel.cells()),
          row_(context.inputs.at(0).shape[0] / spec.options.groups * taps_) {}

    /// Floats of one output channel's weights, and those with padded input channels.
    [[nodiscard]] std::int64_t row() const { return row_; }
    [[nodiscard]] std::int64_t padded_row() const { return plan_.input_channels() * taps_; }

    [[nodiscard]] dnnl::memory::desc bias_desc() const {
        return {
            {plan_.output_channels()}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a};
    }
    [[nodiscard]] std::size_t bias_bytes() const {
        return padded(static_cast<std::size_t>(plan_.output_channels()) * sizeof(float));
    }

    /// Weights of channels that do not fill their blocks pass through row-major staging memory,
    /// with zeros for the missing channels.
    [[nodiscard]] std::size_t staging_bytes() const {
        return plan_.pads_channels() ? padded(plan_.canonical_weights().get_size()) : 0;
    }
    [[nodiscard]] std::size_t data_weight_bytes() const {
        return input_gradient_ ? padded(plan_.data().weights.get_size()) : 0;
    }
    /// One member's sums: weights in the primitive's order, then the bias.
    [[nodiscard]] std::size_t partial_bytes() const {
        return padded(plan_.weights().weights.get_size()) + bias_bytes();
    }
    [[nodiscard]] std::byte* partial(std::byte* shared, int member) const {
        return shared + data_weight_bytes() + staging_bytes() +
               partial_bytes() * static_cast<std::size_t>(member);
    }
    [[nodiscard]] float* partial_bias(std::byte* partial) const {
        return reinterpret_cast<float*>(partial + padded(plan_.weights().weights.get_size()));
    }

private:
    const ConvPlan& plan_;
    bool input_gradient_;
    std::int64_t taps_;
    std::int64_t row_;
};

class ConvCpu final : public Kernel {
public:
    ConvCpu(const ConvSpec& spec, const KernelContext& context)
        : spec_(spec),
          plan_(spec, context),
          input_(context.inputs.at(0)),
          memory_(spec_, plan_, context),
          team_(cpu_team(context.device)),
          training_(context.training),
          input_gradient_(context.input_gradient),
          used_(static_cast<std::size_t>(team_.size())) {
        traits_.output = plan_.output();
        traits_.backward_reads_output = spec.relu;
        traits_.weight_bytes = plan_.canonical_weights().get_size();
    }

    [[nodiscard]] static bool takes_bf16(const ConvSpec& /*spec*/,
                                         const KernelContext& /*context*/) {
        return true;
    }

    /// Scratch memory: tensors in the types of the primitives, then the primitives' own.
    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        KernelMemory memory;
        for (const std::int64_t samples : slice_sizes) {
            const ConvPrimitives& made = plan_.prepare(samples);
            const auto source = [&](const ConvChoice& choice) {
                return ConvertedTensors::bytes(input_, choice.type, samples);
            };
            const auto output = [&](const ConvChoice& choice) {
                return ConvertedTensors::bytes(traits_.output, choice.type, samples);
            };
            memory.forward_scratch =
                std::max(memory.forward_scratch, source(plan_.forward()) + output(plan_.forward()) +
                                                     made.forward.scratch.get_size());
            if (training_) {
                memory.backward_scratch = std::max(
                    {memory.backward_scratch,
                     source(plan_.data()) + output(plan_.data()) + made.data.scratch.get_size(),
                     source(plan_.weights()) + output(plan_.weights()) + memory_.partial_bytes() +
                         made.weights.scratch.get_size()});
            }
        }
        memory.forward_shared = padded(plan_.forward().weights.get_size()) +
                                memory_.staging_bytes() + memory_.bias_bytes();
        make_reorders();
        if (training_) {
            memory.backward_shared =
                memory_.data_weight_bytes() + memory_.staging_bytes() +
                memory_.partial_bytes() * static_cast<std::size_t>(team_.size());
        }
        return memory;
    }

    void begin_forward(std::byte* shared) override {
        std::byte* staging = shared + padded(plan_.forward().weights.get_size());
        reorders_.forward.run(padded_weights(staging), shared);
        if (spec_.options.bias) {
            auto* bias = reinterpret_cast<float*>(staging + memory_.staging_bytes());
            std::fill_n(bias, plan_.output_channels(), 0.0F);
            std::copy_n(binding_.parameters[1], spec_.options.channels, bias);
        }
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const auto& made = plan_.at(slice.samples).forward;
        const ElementType type = plan_.forward().type;
        ConvertedTensors tensors(slice.scratch, slice.samples);
        const float* source = tensors.converted(input_, slice.inputs[0], type);
        float* output = tensors.room(traits_.output, slice.output, type);
        std::unordered_map<int, dnnl::memory> arguments{
            {DNNL_ARG_SRC, wrap(made.source, source)},
            {DNNL_ARG_WEIGHTS, wrap(plan_.forward().weights, slice.shared)},
            {DNNL_ARG_DST, wrap(made.output, output)},
            {DNNL_ARG_SCRATCHPAD, wrap(made.scratch, tensors.rest())}};
        if (spec_.options.bias) {
            const std::byte* bias =
                slice.shared + padded(plan_.forward().weights.get_size()) + memory_.staging_bytes();
            arguments.emplace(DNNL_ARG_BIAS, wrap(memory_.bias_desc(), bias));
        }
        execute("conv", made.primitive, arguments);
        tensors.hand_back(traits_.output, output, type, slice.output);
        if (spec_.relu) {  // oneDNN's own would turn NaN into 0
            with_elements(traits_.output.type, [&](auto element) {
                relu_in_place(as<decltype(element)>(slice.output),
                              slice.samples * traits_.output.sample_floats());
            });
        }
    }

    void begin_backward(std::byte* shared) override {
        std::fill(used_.begin(), used_.end(), char{0});
        if (input_gradient_) {
            reorders_.data.run(padded_weights(shared + memory_.data_weight_bytes()), shared);
        }
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        if (spec_.relu) {
            with_elements(traits_.output.type, [&](auto element) {
                using Element = decltype(element);
                relu_mask(as<Element>(static_cast<const float*>(slice.output)),
                          as<Element>(slice.output_gradient),
                          slice.samples * traits_.output.sample_floats());
            });
        }
        backward_weights(slice);
        if (slice.input_gradients[0] != nullptr) {
            backward_data(slice);
        }
    }

    void end_backward(int /*pass*/, std::int64_t /*batch*/, std::byte* shared) override {
        add_member_sums(team_, reinterpret_cast<float*>(memory_.partial(shared, 0)),
                        memory_.partial_bytes() / sizeof(float), used_);
        auto* staging = reinterpret_cast<float*>(shared + memory_.data_weight_bytes());
        float* target = plan_.pads_channels() ? staging : binding_.gradients[0];
        reorders_.gradient.run(memory_.partial(shared, 0), target);
        if (plan_.pads_channels()) {
            for (std::int64_t o = 0; o < spec_.options.channels; ++o) {
                std::copy_n(staging + o * memory_.padded_row(), memory_.row(),
                            binding_.gradients[0] + o * memory_.row());
            }
        }
        if (spec_.options.bias) {
            std::copy_n(memory_.partial_bias(memory_.partial(shared, 0)), spec_.options.channels,
                        binding_.gradients[1]);
        }
    }

private:
    struct Reorders {
        WeightReorder forward;
        WeightReorder data;
        WeightReorder gradient;
    };

    [[nodiscard]] const float* padded_weights(std::byte* staging) const {
        if (!plan_.pads_channels()) {
            return binding_.parameters[0];
        }
        auto* weights = reinterpret_cast<float*>(staging);
        std::fill_n(weights, plan_.output_channels() * memory_.padded_row(), 0.0F);
        for (std::int64_t o = 0; o < spec_.options.channels; ++o) {
            std::copy_n(binding_.parameters[0] + o * memory_.row(), memory_.row(),
                        weights + o * memory_.padded_row());
        }
        return weights;
    }

    void make_reorders() {
        reorders_.forward = {plan_.canonical_weights(), plan_.forward().weights, team_};
        if (training_) {
            reorders_.gradient = {plan_.weights().weights, plan_.canonical_weights(), team_};
        }
        if (training_ && input_gradient_) {
            reorders_.data = {plan_.canonical_weights(), plan_.data().weights, team_};
        }
    }

    void backward_data(const KernelSlice& slice) {
        const auto& made = plan_.at(slice.samples).data;
        const ElementType type = plan_.data().type;
        ConvertedTensors tensors(slice.scratch, slice.samples);
        const float* gradient = tensors.converted(traits_.output, slice.output_gradient, type);
        float* input_gradient = tensors.room(input_, slice.input_gradients[0], type);
        execute("conv gradient of input", made.primitive,
                {{DNNL_ARG_DIFF_SRC, wrap(made.source, input_gradient)},
                 {DNNL_ARG_WEIGHTS, wrap(plan_.data().weights, slice.shared)},
                 {DNNL_ARG_DIFF_DST, wrap(made.output, gradient)},
                 {DNNL_ARG_SCRATCHPAD, wrap(made.scratch, tensors.rest())}});
        tensors.hand_back(input_, input_gradient, type, slice.input_gradients[0]);
    }

    /// The first slice of a member writes its sums, later ones go to scratch and are added.
    void backward_weights(const KernelSlice& slice) {
        const auto& made = plan_.at(slice.samples).weights;
        const ElementType type = plan_.weights().type;
        ConvertedTensors tensors(slice.scratch, slice.samples);
        const float* source = tensors.converted(input_, slice.inputs[0], type);
        const float* gradient = tensors.converted(traits_.output, slice.output_gradient, type);
        std::byte* scratch = tensors.rest();
        std::byte* sums = memory_.partial(slice.shared, slice.member);
        char& used = used_[static_cast<std::size_t>(slice.member)];
        std::byte* target = used == 0 ? sums : scratch;
        std::unordered_map<int, dnnl::memory> arguments{
            {DNNL_ARG_SRC, wrap(made.source, source)},
            {DNNL_ARG_DIFF_WEIGHTS, wrap(plan_.weights().weights, target)},
            {DNNL_ARG_DIFF_DST, wrap(made.output, gradient)},
            {DNNL_ARG_SCRATCHPAD, wrap(made.scratch, scratch + memory_.partial_bytes())}};
        if (spec_.options.bias) {
            arguments.emplace(DNNL_ARG_DIFF_BIAS,
                              wrap(memory_.bias_desc(), memory_.partial_bias(target)));
        }
        execute("conv gradient of weights", made.primitive, arguments);
        if (used != 0) {
            accumulate(reinterpret_cast<float*>(sums), reinterpret_cast<float*>(scratch),
                       static_cast<std::int64_t>(memory_.partial_bytes() / sizeof(float)));
        }
        used = 1;
    }

    ConvSpec spec_;
    ConvPlan plan_;
    TensorFormat input_;
    ConvMemory memory_;
    ThreadTeam& team_;
    bool training_;
    bool input_gradient_;
    Reorders reorders_;
    std::vector<char> used_;  ///< per member: has written its sums
};

void check_options(const ConvOptions& o) {
    check_window("conv", window_from(o));
    if (o.channels < 1 || o.groups < 1) {
        fail<ShapeError>(
            {.where = "conv", .what = "unusable options", .expected = "channels, groups >= 1"});
    }
}

class Conv final : public SpecLayer<ConvSpec, ConvCpu> {
public:
    explicit Conv(const ConvSpec& spec) : SpecLayer(spec) { check_options(spec.options); }

    [[nodiscard]] std::string_view kind() const override {
        return spec_.relu ? "conv+relu" : "conv";
    }

    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        const Shape& x = only_input("conv", inputs, 3);
        const ConvOptions& o = spec_.options;
        if (x[0] % o.groups != 0 || o.channels % o.groups != 0) {
            fail<ShapeError>(
                {.where = "conv",
                 .what = "channels are not divisible by groups",
                 .expected = "multiples of " + std::to_string(o.groups),
                 .got = std::to_string(x[0]) + " in, " + std::to_string(o.channels) + " out"});
        }
        const auto [height, width] = conv_extents(o, x);
        if (height < 1 || width < 1) {
            const Window2d window = window_from(o);
            const auto least = [](const WindowAxis& axis) {
                return std::to_string(
                    std::max<std::int64_t>(axis.reach() - axis.before - axis.after, 1));
            };
            fail<ShapeError>({.where = "conv",
                              .what = "kernel does not fit into the input",
                              .expected = "a height of at least " + least(window.height) +
                                          " and a width of at least " + least(window.width),
                              .got = to_string(x)});
        }
        return {o.channels, height, width};
    }

    [[nodiscard]] std::vector<TensorSpec> parameters(std::span<const Shape> inputs) const override {
        const ConvOptions& o = spec_.options;
        std::vector<TensorSpec> specs{
            {"weight", Shape{o.channels, inputs[0][0] / o.groups, o.kernel.height, o.kernel.width},
             Initialisation::kHeNormal, true}};
        if (o.bias) {
            specs.push_back({"bias", Shape{o.channels}, Initialisation::kZero, false});
        }
        return specs;
    }

    [[nodiscard]] double forward_flops(std::span<const Shape> inputs) const override {
        const ConvOptions& o = spec_.options;
        const std::int64_t products = inputs[0][0] / o.groups * o.kernel.cells();
        return 2.0 * static_cast<double>(infer(inputs).elements()) * static_cast<double>(products);
    }

    [[nodiscard]] std::shared_ptr<const Layer> with_relu() const override {
        return spec_.relu ? nullptr : std::make_shared<Conv>(ConvSpec{spec_.options, true});
    }
};

}  // namespace

ConvExtents conv_extents(const ConvOptions& options, const Shape& input) {
    const Window2d window = window_from(options);
    return {window.height.outputs(input[1]), window.width.outputs(input[2])};
}

std::shared_ptr<const Layer> make_conv(const ConvOptions& options) {
    return std::make_shared<Conv>(ConvSpec{options, false});
}

}  // namespace cohort
