#include "layers/cpu/conv_primitives.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/core/clock.hpp"
#include "layers/cpu/dnnl_version.hpp"
#include "layers/cpu/elements.hpp"

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

template <class Run>
double best_seconds(const Run& work) {
    constexpr int kRuns = 4;     // the first warms up
    const ThreadCpuClock clock;  // what others do on the machine does not decide
    double best = std::numeric_limits<double>::infinity();
    for (int run = 0; run < kRuns; ++run) {
        const Clock::Seconds start = clock.now();
        work();
        const Clock::Seconds took = clock.now() - start;
        best = run == 0 ? best : std::min(best, took.count());
    }
    return best;
}

/// Of converting a slice's tensor; 0 where it has the type.
double conversion_seconds(const TensorFormat& format, ElementType type, std::int64_t samples) {
    if (format.type == type) {
        return 0;
    }
    const std::int64_t count = samples * format.sample_floats();
    const std::vector<float> from(static_cast<std::size_t>(count));
    std::vector<float> to(from.size());
    return best_seconds(
        [&] { convert_elements(format.type, from.data(), type, to.data(), count); });
}

/// Groups must divide the true channels, so grouped convolutions leave padding to oneDNN.
Desc activation(const ConvOptions& options, TensorFormat format, ElementType type,
                std::int64_t samples) {
    format.type = type;
    Desc desc = describe(format, samples);
    if (options.groups > 1 && dims_of(desc)[1] != format.shape[0]) {
        const Tag tag = format.block == 16 ? Tag::nChw16c : Tag::nChw8c;
        desc = Desc({samples, format.shape[0], format.shape[1], format.shape[2]}, dnnl_type(type),
                    tag);
    }
    return desc;
}

bool winograd_possible(const ConvOptions& o) {
    return o.kernel == 3 && o.stride == 1 && o.dilation == 1 && o.groups == 1 &&
           o.padding == Padding(o.padding.top);
}

/// The kernels to choose from for one direction; every machine has the first of them.
std::vector<ConvChoice> candidates(const ConvOptions& options, Precision precision) {
    std::vector<ConvChoice> all{{kDirect, ElementType::kF32, {}}};
    if (winograd_possible(options)) {
        all.push_back({kWinograd, ElementType::kF32, {}});
    }
    if (precision == Precision::kBf16) {
        all.push_back({kDirect, ElementType::kBf16, {}});
    }
    return all;
}

}  // namespace

struct ConvPlan::Problem {
    Desc source;
    Desc output;
    Desc weights;  ///< in any order
    Desc bias;     ///< empty without bias
    Dims strides;
    Dims dilation;
    Dims before;  ///< padding
    Dims after;
};

ConvPlan::ConvPlan(const ConvSpec& spec, const KernelContext& context)
    : spec_(spec), context_(context) {
    const ConvOptions& o = spec.options;
    const Shape& x = input().shape;
    const auto [height, width] = conv_extents(o, x);
    output_ = {Shape{o.channels, height, width}, preferred_channel_block(),
               activation_type(context.precision)};
    const bool dense = o.groups == 1;
    input_channels_ = dense ? stored_channels(input()) : x[0];
    output_channels_ = dense ? stored_channels(output_) : o.channels;
    const std::int64_t inputs = input_channels_ / o.groups;
    const Dims weights =
        dense ? Dims{output_channels_, inputs, o.kernel.height, o.kernel.width}
              : Dims{o.groups, o.channels / o.groups, inputs, o.kernel.height, o.kernel.width};
    canonical_ = Desc(weights, kF32, dense ? Tag::oihw : Tag::goihw);
}

ConvPlan::Problem ConvPlan::problem(ElementType type, std::int64_t samples) const {
    const ConvOptions& o = spec_.options;
    return {.source = activation(o, input(), type, samples),
            .output = activation(o, output_, type, samples),
            .weights = Desc(dims_of(canonical_), dnnl_type(type), Tag::any),
            .bias = o.bias ? Desc({output_channels_}, kF32, Tag::a) : Desc(),
            .strides = {o.stride.height, o.stride.width},
            .dilation = {o.dilation.height - 1, o.dilation.width - 1},
            .before = {o.padding.top, o.padding.left},
            .after = {o.padding.bottom, o.padding.right}};
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
                                                       p.output, p.strides, p.dilation, p.before,
                                                       p.after);
}

dnnl::convolution_backward_data::primitive_desc ConvPlan::data_desc(const Problem& p,
                                                                    dnnl::algorithm algorithm,
                                                                    const Desc& weights) const {
    return describe_backward<dnnl::convolution_backward_data>(
        forward_desc(p, algorithm, p.weights), algorithm, p.source, weights, p.output, p.strides,
        p.dilation, p.before, p.after);
}

dnnl::convolution_backward_weights::primitive_desc ConvPlan::weights_desc(
    const Problem& p, dnnl::algorithm algorithm, const Desc& weights) const {
    return describe_backward<dnnl::convolution_backward_weights>(
        forward_desc(p, algorithm, p.weights), algorithm, p.source, weights, p.bias, p.output,
        p.strides, p.dilation, p.before, p.after);
}

template <class F>
decltype(auto) ConvPlan::with_desc(Direction direction, const ConvChoice& choice,
                                   std::int64_t samples, F&& f) const {
    const Problem p = problem(choice.type, samples);
    if (direction == Direction::kForward) {
        const auto desc = forward_desc(p, choice.algorithm, p.weights);
        return f(desc, desc.weights_desc());
    }
    if (direction == Direction::kData) {
        const auto desc = data_desc(p, choice.algorithm, p.weights);
        return f(desc, desc.weights_desc());
    }
    const auto desc = weights_desc(p, choice.algorithm, Desc(dims_of(canonical_), kF32, Tag::any));
    return f(desc, desc.diff_weights_desc());
}

bool ConvPlan::usable(Direction direction, const ConvChoice& choice, std::int64_t samples) const {
    try {
        return with_desc(direction, choice, samples, [](const auto& desc, const Desc& /*order*/) {
            return std::string_view(desc.impl_info_str()).find("ref") == std::string_view::npos;
        });
    } catch (const dnnl::error&) {
        return false;  // oneDNN has none for this shape or machine
    }
}

double ConvPlan::measure(Direction direction, const ConvChoice& choice,
                         std::int64_t samples) const {
    const Problem p = problem(choice.type, samples);
    const ScratchMemory source(p.source);
    const ScratchMemory output(p.output);
    const ScratchMemory bias(spec_.options.bias ? p.bias : Desc({1}, kF32, Tag::a));
    const double seconds =
        with_desc(direction, choice, samples, [&](const auto& desc, const Desc& order) {
            const ScratchMemory weights(order);
            const ScratchMemory scratch(desc.scratchpad_desc());
            const dnnl::primitive primitive(desc.get());
            // A primitive ignores the arguments that it does not have.
            const std::unordered_map<int, dnnl::memory> arguments{
                {DNNL_ARG_SRC, source},        {DNNL_ARG_DIFF_SRC, source},
                {DNNL_ARG_WEIGHTS, weights},   {DNNL_ARG_DIFF_WEIGHTS, weights},
                {DNNL_ARG_BIAS, bias},         {DNNL_ARG_DIFF_BIAS, bias},
                {DNNL_ARG_DST, output},        {DNNL_ARG_DIFF_DST, output},
                {DNNL_ARG_SCRATCHPAD, scratch}};
            return best_seconds([&] { primitive.execute(dnnl_stream(), arguments); });
        });
    return seconds + conversion_seconds(input(), choice.type, samples) +
           conversion_seconds(output_, choice.type, samples);
}

/// What measurement finds on AVX-512 machines: Winograd's tiles and channels must be large enough;
/// where there are products of bfloat16, they are as fast as it or faster.
ConvChoice ConvPlan::choose_by_rule(Direction direction, std::int64_t samples) const {
    constexpr std::int64_t kFewestChannels = 32;
    constexpr std::int64_t kSmallestMap = 4;
    const std::vector<ConvChoice> all = candidates(spec_.options, context_.precision);
    const Shape& x = input().shape;
    const bool large = x[0] >= kFewestChannels && spec_.options.channels >= kFewestChannels &&
                       x[1] >= kSmallestMap && x[2] >= kSmallestMap;
    ConvChoice chosen = all.front();
    for (const ConvChoice& choice : all) {  // a later one is faster
        const bool wanted =
            choice.algorithm == kWinograd ? large : choice.type != ElementType::kF32;
        if (wanted && usable(direction, choice, samples)) {
            chosen = choice;
        }
    }
    return chosen;
}

ConvChoice ConvPlan::choose(Direction direction, std::int64_t samples) {
    const std::vector<ConvChoice> all = candidates(spec_.options, context_.precision);
    if (all.size() == 1) {
        return all.front();
    }
    if (context_.deterministic || context_.tuning == nullptr) {
        return choose_by_rule(direction, samples);
    }
    const ConvOptions& o = spec_.options;
    const std::string key =
        "conv " + std::to_string(static_cast<int>(direction)) + " " + std::to_string(samples) +
        to_string(input().shape) + std::to_string(o.channels) + "p" + to_string(o.padding) + "l" +
        std::to_string(input().block) + (o.bias ? "b " : " ") +
        (winograd_possible(o) ? ""
                              : "k" + to_string(o.kernel) + "s" + to_string(o.stride) + "d" +
                                    to_string(o.dilation) + "g" + std::to_string(o.groups) + " ") +
        (context_.precision == Precision::kBf16
             ? "bf16 of " + std::string(word_of(input().type)) + " "
             : "") +
        kernel_machine();
    const int known = context_.tuning->find(key);
    if (known >= 0 && known < static_cast<int>(all.size())) {
        return all[static_cast<std::size_t>(known)];
    }
    std::size_t fastest = 0;
    double least = measure(direction, all.front(), samples);
    for (std::size_t i = 1; i < all.size(); ++i) {
        if (usable(direction, all[i], samples)) {
            const double seconds = measure(direction, all[i], samples);
            fastest = seconds < least ? i : fastest;
            least = std::min(least, seconds);
        }
    }
    context_.tuning->remember(key, static_cast<int>(fastest));
    return all[fastest];
}

const ConvPrimitives& ConvPlan::prepare(std::int64_t samples) {
    if (const auto found = made_.find(samples); found != made_.end()) {
        return found->second;
    }
    return dnnl_checked("conv", [&]() -> const ConvPrimitives& {
        ConvPrimitives made;
        // Weights are prepared once for all slices, so later sizes must take the first's order.
        const auto chosen = [&](Direction direction, ConvChoice& own) {
            if (made_.empty()) {
                own = choose(direction, samples);
                const auto type = direction == Direction::kWeights ? ElementType::kF32 : own.type;
                own.weights = Desc(dims_of(canonical_), dnnl_type(type), Tag::any);
            }
            return problem(own.type, samples);
        };
        const auto make = [&](auto& direction, const Problem& p, const auto& desc) {
            direction = {.primitive = {desc},
                         .source = p.source,
                         .output = p.output,
                         .scratch = desc.scratchpad_desc()};
        };
        const Problem ahead = chosen(Direction::kForward, forward_);
        const auto forward = forward_desc(ahead, forward_.algorithm, forward_.weights);
        forward_.weights = forward.weights_desc();
        make(made.forward, ahead, forward);
        if (context_.training) {
            const Problem p = chosen(Direction::kWeights, weights_);
            const auto weights = weights_desc(p, weights_.algorithm, weights_.weights);
            weights_.weights = weights.diff_weights_desc();
            make(made.weights, p, weights);
        }
        if (context_.training && context_.input_gradient) {
            const Problem p = chosen(Direction::kData, data_);
            const auto data = data_desc(p, data_.algorithm, data_.weights);
            data_.weights = data.weights_desc();
            make(made.data, p, data);
        }
        return made_.emplace(samples, std::move(made)).first->second;
    });
}

}  // namespace cohort
