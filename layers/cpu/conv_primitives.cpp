#include "layers/cpu/conv_primitives.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "layers/cpu/dnnl_version.hpp"

namespace cohort {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
constexpr auto kF32 = dnnl::memory::data_type::f32;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;
constexpr auto kWinograd = dnnl::algorithm::convolution_winograd;

/// Zeroed memory of a descriptor, for measurements.
class ScratchMemory {
public:
    explicit ScratchMemory(const Desc& desc) : memory_(desc, dnnl_engine()) {
        auto* bytes = static_cast<char*>(memory_.get_data_handle());
        std::fill(bytes, bytes + desc.get_size(), char{0});
    }
    operator const dnnl::memory&() const { return memory_; }

private:
    dnnl::memory memory_;
};

double best_seconds(const dnnl::primitive& primitive,
                    const std::unordered_map<int, dnnl::memory>& arguments) {
    constexpr int kRuns = 4;  // the first warms up
    double best = std::numeric_limits<double>::infinity();
    for (int run = 0; run < kRuns; ++run) {
        const auto start = std::chrono::steady_clock::now();
        primitive.execute(dnnl_stream(), arguments);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        best = run == 0 ? best : std::min(best, took.count());
    }
    return best;
}

}  // namespace

struct ConvPlan::Problem {
    Desc source;
    Desc output;
    Desc bias;  ///< empty without bias
    Dims strides;
    Dims dilation;
    Dims padding;
};

ConvPlan::ConvPlan(const ConvSpec& spec, const KernelContext& context)
    : spec_(spec), context_(context) {
    const ConvOptions& o = spec.options;
    const Shape& x = input().shape;
    const auto [height, width] = conv_extents(o, x);
    output_ = {Shape{o.channels, height, width}, preferred_channel_block()};
    const bool dense = o.groups == 1;
    input_channels_ = dense ? stored_channels(input()) : x[0];
    output_channels_ = dense ? stored_channels(output_) : o.channels;
    const std::int64_t inputs = input_channels_ / o.groups;
    const Dims weights = dense ? Dims{output_channels_, inputs, o.kernel, o.kernel}
                               : Dims{o.groups, o.channels / o.groups, inputs, o.kernel, o.kernel};
    canonical_ = Desc(weights, kF32, dense ? Tag::oihw : Tag::goihw);
    any_weights_ = Desc(weights, kF32, Tag::any);
}

/// Groups must divide the true channels, so grouped convolutions leave padding to oneDNN.
Desc ConvPlan::activation(const TensorFormat& format, std::int64_t samples) const {
    Desc desc = describe(format, samples);
    if (spec_.options.groups > 1 && dims_of(desc)[1] != format.shape[0]) {
        const Tag tag = format.block == 16 ? Tag::nChw16c : Tag::nChw8c;
        desc = Desc({samples, format.shape[0], format.shape[1], format.shape[2]}, kF32, tag);
    }
    return desc;
}

ConvPlan::Problem ConvPlan::problem(std::int64_t samples) const {
    const ConvOptions& o = spec_.options;
    return {.source = activation(input(), samples),
            .output = activation(output_, samples),
            .bias = o.bias ? Desc({output_channels_}, kF32, Tag::a) : Desc(),
            .strides = {o.stride, o.stride},
            .dilation = {o.dilation - 1, o.dilation - 1},
            .padding = {o.padding, o.padding}};
}

dnnl::convolution_forward::primitive_desc ConvPlan::forward_desc(const Problem& p,
                                                                 dnnl::algorithm algorithm,
                                                                 const Desc& weights) const {
    // The inference form of Winograd wants weights in an order that depends on the number of
    // samples, so it could not serve a second slice size.
    const auto kind = context_.training || algorithm == kWinograd
                          ? dnnl::prop_kind::forward_training
                          : dnnl::prop_kind::forward_inference;
    return describe_forward<dnnl::convolution_forward>(kind, algorithm, p.source, weights, p.bias,
                                                       p.output, p.strides, p.dilation, p.padding,
                                                       p.padding);
}

dnnl::convolution_backward_data::primitive_desc ConvPlan::data_desc(const Problem& p,
                                                                    dnnl::algorithm algorithm,
                                                                    const Desc& weights) const {
    return describe_backward<dnnl::convolution_backward_data>(
        forward_desc(p, algorithm, any_weights_), algorithm, p.source, weights, p.output, p.strides,
        p.dilation, p.padding, p.padding);
}

dnnl::convolution_backward_weights::primitive_desc ConvPlan::weights_desc(
    const Problem& p, dnnl::algorithm algorithm, const Desc& weights) const {
    return describe_backward<dnnl::convolution_backward_weights>(
        forward_desc(p, algorithm, any_weights_), algorithm, p.source, weights, p.bias, p.output,
        p.strides, p.dilation, p.padding, p.padding);
}

bool ConvPlan::winograd_possible() const {
    const ConvOptions& o = spec_.options;
    return o.kernel == 3 && o.stride == 1 && o.dilation == 1 && o.groups == 1;
}

double ConvPlan::measure(Direction direction, dnnl::algorithm algorithm, std::int64_t samples) {
    const Problem p = problem(samples);
    const ScratchMemory source(p.source);
    const ScratchMemory output(p.output);
    const ScratchMemory bias(spec_.options.bias ? p.bias : Desc({1}, kF32, Tag::a));
    // A primitive ignores the arguments that it does not have.
    const auto seconds = [&](const auto& desc, const Desc& order) {
        const ScratchMemory weights(order);
        const ScratchMemory scratch(desc.scratchpad_desc());
        return best_seconds(dnnl::primitive(desc.get()), {{DNNL_ARG_SRC, source},
                                                          {DNNL_ARG_DIFF_SRC, source},
                                                          {DNNL_ARG_WEIGHTS, weights},
                                                          {DNNL_ARG_DIFF_WEIGHTS, weights},
                                                          {DNNL_ARG_BIAS, bias},
                                                          {DNNL_ARG_DIFF_BIAS, bias},
                                                          {DNNL_ARG_DST, output},
                                                          {DNNL_ARG_DIFF_DST, output},
                                                          {DNNL_ARG_SCRATCHPAD, scratch}});
    };
    if (direction == Direction::kForward) {
        const auto desc = forward_desc(p, algorithm, any_weights_);
        return seconds(desc, desc.weights_desc());
    }
    if (direction == Direction::kData) {
        const auto desc = data_desc(p, algorithm, any_weights_);
        return seconds(desc, desc.weights_desc());
    }
    const auto desc = weights_desc(p, algorithm, any_weights_);
    return seconds(desc, desc.diff_weights_desc());
}

dnnl::algorithm ConvPlan::choose(Direction direction, std::int64_t samples) {
    if (!winograd_possible()) {
        return kDirect;
    }
    const ConvOptions& o = spec_.options;
    const Shape& x = input().shape;
    if (context_.deterministic || context_.tuning == nullptr) {
        // What measurement finds on AVX-512 machines: tiles and channels must be large enough.
        constexpr std::int64_t kFewestChannels = 32;
        constexpr std::int64_t kSmallestMap = 4;
        if (x[0] < kFewestChannels || o.channels < kFewestChannels || x[1] < kSmallestMap ||
            x[2] < kSmallestMap) {
            return kDirect;
        }
    }
    const std::string key = "conv " + std::to_string(static_cast<int>(direction)) + " " +
                            std::to_string(samples) + to_string(x) + std::to_string(o.channels) +
                            "p" + std::to_string(o.padding) + "l" + std::to_string(input().block) +
                            (o.bias ? "b " : " ") + kernel_machine();
    const int known = context_.tuning == nullptr ? -1 : context_.tuning->find(key);
    if (known >= 0) {
        return known == 1 ? kWinograd : kDirect;
    }
    bool winograd = false;
    try {
        if (context_.deterministic || context_.tuning == nullptr) {
            const Problem p = problem(samples);
            static_cast<void>(forward_desc(p, kWinograd, any_weights_));
            if (direction == Direction::kData) {
                static_cast<void>(data_desc(p, kWinograd, any_weights_));
            } else if (direction == Direction::kWeights) {
                static_cast<void>(weights_desc(p, kWinograd, any_weights_));
            }
            winograd = true;
        } else {
            winograd =
                measure(direction, kWinograd, samples) < measure(direction, kDirect, samples);
        }
    } catch (const dnnl::error&) {
        winograd = false;  // oneDNN has none for this shape or machine
    }
    if (context_.tuning != nullptr) {
        context_.tuning->remember(key, winograd ? 1 : 0);
    }
    return winograd ? kWinograd : kDirect;
}

const ConvPrimitives& ConvPlan::prepare(std::int64_t samples) {
    if (const auto found = made_.find(samples); found != made_.end()) {
        return found->second;
    }
    return dnnl_checked("conv", [&]() -> const ConvPrimitives& {
        const Problem p = problem(samples);
        ConvPrimitives made;
        made.source = p.source;
        made.output = p.output;
        // Weights are prepared once for all slices, so later sizes must take the first's order.
        const auto chosen = [&](Direction direction, Chosen& own) -> const Chosen& {
            if (made_.empty()) {
                own = {choose(direction, samples), any_weights_};
            }
            return own;
        };
        const Chosen& ahead = chosen(Direction::kForward, forward_);
        const auto forward = forward_desc(p, ahead.algorithm, ahead.weights);
        forward_.weights = forward.weights_desc();
        made.forward = dnnl::convolution_forward(forward);
        made.forward_scratch = forward.scratchpad_desc();
        if (context_.training) {
            const Chosen& own = chosen(Direction::kWeights, weights_);
            const auto weights = weights_desc(p, own.algorithm, own.weights);
            weights_.weights = weights.diff_weights_desc();
            made.backward_weights = dnnl::convolution_backward_weights(weights);
            made.weights_scratch = weights.scratchpad_desc();
        }
        if (context_.training && context_.input_gradient) {
            const Chosen& own = chosen(Direction::kData, data_);
            const auto data = data_desc(p, own.algorithm, own.weights);
            data_.weights = data.weights_desc();
            made.backward_data = dnnl::convolution_backward_data(data);
            made.data_scratch = data.scratchpad_desc();
        }
        return made_.emplace(samples, std::move(made)).first->second;
    });
}

}  // namespace cohort
