// 2-D convolution, and its kernel for the CPU: whichever algorithms cpu/conv/conv_choice.hpp finds
// best.
//
// Activations stay in the blocked order [N, C/b, H, W, b] between layers; b is what the machine's
// vectors want. The flat buffers hold weights in canonical order; each algorithm copies them once
// per pass to its own order, in memory shared by all slices. Weight gradients are summed per team
// member over its slices in order, then over the members in order: the result does not depend on
// timing.
#include <algorithm>
#include <set>
#include <vector>

#include "cohort/core/error.hpp"
#include "core/tensor/cpu_team.hpp"
#include "layers/cpu/conv/conv_choice.hpp"
#include "layers/cpu/dnnl_support.hpp"
#include "layers/cpu/elements.hpp"
#include "layers/cpu/elementwise_cpu.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class ConvCpu final : public Kernel {
public:
    ConvCpu(const ConvSpec& spec, const KernelContext& context)
        : spec_(spec),
          context_(context),
          team_(cpu_team(context.device)),
          used_(static_cast<std::size_t>(team_.size())) {
        const TensorFormat& input = context.inputs.at(0);
        const auto [height, width] = conv_extents(spec.options, input.shape);
        traits_.output = {Shape{spec.options.channels, height, width}, preferred_channel_block(),
                          activation_type(context.precision)};
        traits_.backward_reads_output = spec.relu;
        traits_.weight_bytes =
            static_cast<std::size_t>(spec.options.channels * input.shape[0] / spec.options.groups *
                                     spec.options.kernel.cells()) *
            sizeof(float);
        problem_ = {.options = spec.options,
                    .input = input,
                    .output = traits_.output,
                    .training = context.training,
                    .team = &team_};
    }

    [[nodiscard]] static bool takes_bf16(const ConvSpec& /*spec*/,
                                         const KernelContext& /*context*/) {
        return true;
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        for (const std::int64_t samples : slice_sizes) {
            prepare_one(samples);
        }
        KernelMemory memory;
        for (const std::int64_t samples : slice_sizes) {
            memory.forward_scratch =
                std::max(memory.forward_scratch, forward_->scratch_bytes(samples));
            if (context_.training) {
                memory.backward_scratch =
                    std::max({memory.backward_scratch, weights_->scratch_bytes(samples),
                              data_ == nullptr ? 0 : data_->scratch_bytes(samples)});
            }
        }
        memory.forward_shared = forward_->weight_bytes();
        if (context_.training) {
            memory.backward_shared =
                sums_start() + weights_->sum_bytes() * static_cast<std::size_t>(team_.size());
        }
        return memory;
    }

    void begin_forward(std::byte* shared) override {
        forward_->prepare_weights(binding_.parameters[0],
                                  spec_.options.bias ? binding_.parameters[1] : nullptr, shared);
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        forward_->run(slice.samples, slice.shared, slice.inputs[0], slice.output, slice.scratch);
        if (spec_.relu) {  // oneDNN's own would turn NaN into 0
            with_elements(traits_.output.type, [&](auto element) {
                relu_in_place(as<decltype(element)>(slice.output),
                              slice.samples * traits_.output.sample_floats());
            });
        }
    }

    void begin_backward(std::byte* shared) override {
        std::fill(used_.begin(), used_.end(), char{0});
        if (data_ != nullptr) {
            data_->prepare_weights(binding_.parameters[0], nullptr, shared);
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
        char& used = used_[static_cast<std::size_t>(slice.member)];
        weights_->run(slice.samples, slice.inputs[0], slice.output_gradient, used != 0,
                      sums(slice.shared, slice.member), slice.scratch);
        used = 1;
        if (slice.input_gradients[0] != nullptr) {
            data_->run(slice.samples, slice.shared, slice.output_gradient, slice.input_gradients[0],
                       slice.scratch);
        }
    }

    void end_backward(int /*pass*/, std::int64_t /*batch*/, std::byte* shared) override {
        add_member_sums(team_, reinterpret_cast<float*>(sums(shared, 0)),
                        weights_->sum_bytes() / sizeof(float), used_);
        weights_->finish(sums(shared, 0), shared + data_bytes(), binding_.gradients[0],
                         spec_.options.bias ? binding_.gradients[1] : nullptr);
    }

    [[nodiscard]] std::vector<KernelImplementation> implementations() const override {
        std::vector<KernelImplementation> all;
        const auto add = [&](const char* part, const ConvAlgorithm* algorithm) {
            if (algorithm != nullptr) {
                all.push_back({part, algorithm->name()});
            }
        };
        add("forward", forward_.get());
        add("input gradient", data_.get());
        add("weight gradient", weights_.get());
        return all;
    }

private:
    // In shared memory of the backward pass: weights for the gradient of the input, memory for the
    // last step of the gradient of the weights, every member's sums.
    [[nodiscard]] std::size_t data_bytes() const {
        return data_ == nullptr ? 0 : data_->weight_bytes();
    }
    [[nodiscard]] std::size_t sums_start() const { return data_bytes() + weights_->finish_bytes(); }
    [[nodiscard]] std::byte* sums(std::byte* shared, int member) const {
        return shared + sums_start() + weights_->sum_bytes() * static_cast<std::size_t>(member);
    }

    /// The first size decides. One that an algorithm does not have takes it away from all.
    void prepare_one(std::int64_t samples) {
        dnnl_checked("conv", [&] {
            if (sizes_.empty()) {
                forward_ = choose_conv(problem_, ConvDirection::kForward, samples, context_);
                if (context_.training) {
                    weights_ = choose_conv_gradient(problem_, samples, context_);
                }
                if (context_.training && context_.input_gradient) {
                    data_ = choose_conv(problem_, ConvDirection::kData, samples, context_);
                }
            }
            sizes_.insert(samples);
            const auto keep = [&](auto& algorithm, const auto& make_any) {
                if (algorithm == nullptr || algorithm->prepare(samples)) {
                    return;
                }
                algorithm = make_any();
                for (const std::int64_t size : sizes_) {
                    check_invariant(algorithm->prepare(size), "our own convolution takes all");
                }
            };
            keep(forward_, [&] { return any_conv(problem_, ConvDirection::kForward); });
            keep(weights_, [&] { return any_conv_gradient(problem_); });
            keep(data_, [&] { return any_conv(problem_, ConvDirection::kData); });
        });
    }

    ConvSpec spec_;
    KernelContext context_;
    ConvProblem problem_;
    ThreadTeam& team_;
    std::unique_ptr<ConvProduct> forward_;
    std::unique_ptr<ConvProduct> data_;  ///< null where that gradient is not wanted
    std::unique_ptr<ConvWeightGradient> weights_;
    std::set<std::int64_t> sizes_;  ///< slices that are prepared
    std::vector<char> used_;        ///< per member: has written its sums
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
