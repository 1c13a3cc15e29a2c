#include "layers/cpu/conv/conv_dnnl.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "layers/cpu/dnnl_support.hpp"
#include "layers/cpu/dnnl_version.hpp"
#include "layers/cpu/elements.hpp"
#include "layers/cpu/elementwise_cpu.hpp"
#include "layers/cpu/weight_reorder.hpp"

namespace cohort {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
constexpr auto kF32 = dnnl::memory::data_type::f32;

/// Groups must divide the true channels, so grouped convolutions leave padding to oneDNN.
Desc activation(const ConvOptions& options, const TensorFormat& format, std::int64_t samples) {
    const Desc desc = describe(format, samples);
    if (options.groups == 1 || dims_of(desc)[1] == format.shape[0]) {
        return desc;
    }
    const Tag tag = format.block == 16 ? Tag::nChw16c : Tag::nChw8c;
    return {
        {samples, format.shape[0], format.shape[1], format.shape[2]}, dnnl_type(format.type), tag};
}

/// What a primitive computes from, for one slice size.
struct Arguments {
    Desc source;
    Desc output;
    Desc bias;  ///< empty without bias
    Dims strides;
    Dims dilation;
    Dims before;  ///< padding
    Dims after;
};

/// A primitive for one slice size, and the memory that it reads and writes.
struct Made {
    dnnl::primitive primitive;
    Desc source;
    Desc output;
    Desc scratch;
};

/// The primitives of one direction, and weights with the channels that they see.
class DnnlConv {
public:
    DnnlConv(const ConvProblem& problem, ConvDirection direction, DnnlConvKind kind)
        : problem_(problem),
          direction_(direction),
          kind_(kind),
          algorithm_(kind == DnnlConvKind::kWinograd ? dnnl::algorithm::convolution_winograd
                                                     : dnnl::algorithm::convolution_direct) {
        const ConvOptions& o = problem.options;
        const std::int64_t true_inputs = problem.input.shape[0];
        const bool dense = o.groups == 1;
        const std::int64_t all = dense ? stored_channels(problem.input) : true_inputs;
        outputs_ = dense ? stored_channels(problem.output) : o.channels;
        pads_ = all != true_inputs || outputs_ != o.channels;
        const std::int64_t cells = o.kernel.cells();
        row_ = true_inputs / o.groups * cells;
        padded_row_ = all / o.groups * cells;
        const std::int64_t inputs = all / o.groups;
        const Dims weights =
            dense ? Dims{outputs_, inputs, o.kernel.height, o.kernel.width}
                  : Dims{o.groups, o.channels / o.groups, inputs, o.kernel.height, o.kernel.width};
        canonical_ = Desc(weights, kF32, dense ? Tag::oihw : Tag::goihw);
        const auto type =
            direction == ConvDirection::kWeights ? kF32 : dnnl_type(problem.input.type);
        order_ = Desc(weights, type, Tag::any);
    }

    /// False: oneDNN has none for this size and the weights' order, or plain loops.
    [[nodiscard]] bool prepare(std::int64_t samples) {
        if (made_.contains(samples)) {
            return true;
        }
        try {
            const Arguments a = arguments(samples);
            if (direction_ == ConvDirection::kForward) {
                return keep(a, samples, forward_desc(a, order_),
                            [](const auto& desc) { return desc.weights_desc(); });
            }
            if (direction_ == ConvDirection::kData) {
                return keep(a, samples,
                            describe_backward<dnnl::convolution_backward_data>(
                                forward_desc(a, any_order()), algorithm_, a.source, order_,
                                a.output, a.strides, a.dilation, a.before, a.after),
                            [](const auto& desc) { return desc.weights_desc(); });
            }
            return keep(a, samples,
                        describe_backward<dnnl::convolution_backward_weights>(
                            forward_desc(a, any_order()), algorithm_, a.source, order_, a.bias,
                            a.output, a.strides, a.dilation, a.before, a.after),
                        [](const auto& desc) { return desc.diff_weights_desc(); });
        } catch (const dnnl::error&) {
            return false;
        }
    }

    [[nodiscard]] const Made& at(std::int64_t samples) const { return made_.at(samples); }
    [[nodiscard]] const std::string& name() const { return name_; }
    /// The weights as the primitives want them, and row-major with the padding of channels.
    [[nodiscard]] const Desc& order() const { return order_; }
    [[nodiscard]] const Desc& canonical() const { return canonical_; }
    [[nodiscard]] Desc bias_desc() const { return {{outputs_}, kF32, Tag::a}; }
    [[nodiscard]] std::size_t bias_bytes() const {
        return problem_.options.bias ? padded(static_cast<std::size_t>(outputs_) * sizeof(float))
                                     : 0;
    }
    [[nodiscard]] std::size_t order_bytes() const { return padded(order_.get_size()); }
    /// Weights of channels that do not fill their blocks pass through row-major memory, with zeros
    /// for the missing channels.
    [[nodiscard]] std::size_t staging_bytes() const {
        return pads_ ? padded(canonical_.get_size()) : 0;
    }
    [[nodiscard]] const float* padded_weights(const float* weights, std::byte* staging) const {
        if (!pads_) {
            return weights;
        }
        auto* to = reinterpret_cast<float*>(staging);
        std::fill_n(to, outputs_ * padded_row_, 0.0F);
        for (std::int64_t o = 0; o < problem_.options.channels; ++o) {
            std::copy_n(weights + o * row_, row_, to + o * padded_row_);
        }
        return to;
    }
    void take_weights(const float* staging, float* weights) const {
        for (std::int64_t o = 0; o < problem_.options.channels; ++o) {
            std::copy_n(staging + o * padded_row_, row_, weights + o * row_);
        }
    }
    [[nodiscard]] bool pads() const { return pads_; }
    [[nodiscard]] const ConvProblem& problem() const { return problem_; }

private:
    [[nodiscard]] Desc any_order() const {
        return {dims_of(canonical_), dnnl_type(problem_.input.type), Tag::any};
    }
    [[nodiscard]] Arguments arguments(std::int64_t samples) const {
        const ConvOptions& o = problem_.options;
        return {.source = activation(o, problem_.input, samples),
                .output = activation(o, problem_.output, samples),
                .bias = o.bias ? bias_desc() : Desc(),
                .strides = {o.stride.height, o.stride.width},
                .dilation = {o.dilation.height - 1, o.dilation.width - 1},
                .before = {o.padding.top, o.padding.left},
                .after = {o.padding.bottom, o.padding.right}};
    }
    [[nodiscard]] dnnl::convolution_forward::primitive_desc forward_desc(
        const Arguments& a, const Desc& weights) const {
        // The inference form of Winograd wants weights in an order that depends on the number of
        // samples, so it could not serve a second slice size.
        const auto kind = problem_.training || kind_ == DnnlConvKind::kWinograd
                              ? dnnl::prop_kind::forward_training
                              : dnnl::prop_kind::forward_inference;
        return describe_forward<dnnl::convolution_forward>(kind, algorithm_, a.source, weights,
                                                           a.bias, a.output, a.strides, a.dilation,
                                                           a.before, a.after);
    }
    template <class PrimitiveDesc, class OrderOf>
    bool keep(const Arguments& a, std::int64_t samples, const PrimitiveDesc& desc,
              const OrderOf& order_of) {
        const std::string name = desc.impl_info_str();
        if (is_reference(name)) {
            return false;
        }
        if (made_.empty()) {
            name_ = name;
            order_ = order_of(desc);
        }
        require_code_memory();
        made_.emplace(samples, Made{.primitive = dnnl::primitive(desc.get()),
                                    .source = a.source,
                                    .output = a.output,
                                    .scratch = desc.scratchpad_desc()});
        return true;
    }

    ConvProblem problem_;
    ConvDirection direction_;
    DnnlConvKind kind_;
    dnnl::algorithm algorithm_;
    std::int64_t outputs_ = 0;  ///< padding included
    bool pads_ = false;
    std::int64_t row_ = 0;         ///< floats of one output channel's weights
    std::int64_t padded_row_ = 0;  ///< with those of padding channels
    Desc canonical_;
    Desc order_;  ///< any, until the first size has chosen
    std::string name_;
    std::map<std::int64_t, Made> made_;
};

/// Prepared: the weights in their order, the bias, staging.
class DnnlProduct final : public ConvProduct {
public:
    DnnlProduct(const ConvProblem& problem, ConvDirection direction, DnnlConvKind kind)
        : conv_(problem, direction, kind), forward_(direction == ConvDirection::kForward) {}

    [[nodiscard]] std::string name() const override { return conv_.name(); }
    [[nodiscard]] bool prepare(std::int64_t samples) override {
        const bool made = conv_.prepare(samples);
        if (made && !reorder_) {
            reorder_ = std::make_unique<WeightReorder>(conv_.canonical(), conv_.order(),
                                                       *conv_.problem().team);
        }
        return made;
    }
    [[nodiscard]] std::size_t scratch_bytes(std::int64_t samples) const override {
        return conv_.at(samples).scratch.get_size();
    }
    [[nodiscard]] std::size_t weight_bytes() const override {
        return conv_.order_bytes() + (forward_ ? conv_.bias_bytes() : 0) + conv_.staging_bytes();
    }

    void prepare_weights(const float* weights, const float* bias,
                         std::byte* prepared) const override {
        std::byte* staging = prepared + weight_bytes() - conv_.staging_bytes();
        reorder_->run(conv_.padded_weights(weights, staging), prepared);
        if (bias != nullptr) {
            auto* to = reinterpret_cast<float*>(prepared + conv_.order_bytes());
            std::fill_n(to, conv_.bias_bytes() / sizeof(float), 0.0F);
            std::copy_n(bias, conv_.problem().options.channels, to);
        }
    }

    void run(std::int64_t samples, const std::byte* prepared, const float* from, float* to,
             std::byte* scratch) const override {
        const Made& made = conv_.at(samples);
        std::unordered_map<int, dnnl::memory> arguments{
            {DNNL_ARG_WEIGHTS, wrap(conv_.order(), prepared)},
            {DNNL_ARG_SCRATCHPAD, wrap(made.scratch, scratch)}};
        if (!forward_) {
            arguments.emplace(DNNL_ARG_DIFF_DST, wrap(made.output, from));
            arguments.emplace(DNNL_ARG_DIFF_SRC, wrap(made.source, to));
            execute("conv gradient of input", made.primitive, arguments);
            return;
        }
        arguments.emplace(DNNL_ARG_SRC, wrap(made.source, from));
        arguments.emplace(DNNL_ARG_DST, wrap(made.output, to));
        if (conv_.problem().options.bias) {
            arguments.emplace(DNNL_ARG_BIAS,
                              wrap(conv_.bias_desc(), prepared + conv_.order_bytes()));
        }
        execute("conv", made.primitive, arguments);
    }

private:
    DnnlConv conv_;
    bool forward_;
    std::unique_ptr<WeightReorder> reorder_;
};

/// Sums: the weights in the primitive's order, then the bias.
class DnnlGradient final : public ConvWeightGradient {
public:
    DnnlGradient(const ConvProblem& problem, DnnlConvKind kind)
        : conv_(problem, ConvDirection::kWeights, kind) {}

    [[nodiscard]] std::string name() const override { return conv_.name(); }
    [[nodiscard]] bool prepare(std::int64_t samples) override {
        const bool made = conv_.prepare(samples);
        if (made && !reorder_) {
            reorder_ = std::make_unique<WeightReorder>(conv_.order(), conv_.canonical(),
                                                       *conv_.problem().team);
        }
        return made;
    }
    /// A slice's own sums before they are added to earlier ones, then the primitive's.
    [[nodiscard]] std::size_t scratch_bytes(std::int64_t samples) const override {
        return sum_bytes() + conv_.at(samples).scratch.get_size();
    }
    [[nodiscard]] std::size_t sum_bytes() const override {
        return conv_.order_bytes() + conv_.bias_bytes();
    }

    void run(std::int64_t samples, const float* source, const float* output_gradient, bool adds,
             std::byte* sums, std::byte* scratch) const override {
        const Made& made = conv_.at(samples);
        std::byte* target = adds ? scratch : sums;
        std::unordered_map<int, dnnl::memory> arguments{
            {DNNL_ARG_SRC, wrap(made.source, source)},
            {DNNL_ARG_DIFF_WEIGHTS, wrap(conv_.order(), target)},
            {DNNL_ARG_DIFF_DST, wrap(made.output, output_gradient)},
            {DNNL_ARG_SCRATCHPAD, wrap(made.scratch, scratch + sum_bytes())}};
        if (conv_.problem().options.bias) {
            arguments.emplace(DNNL_ARG_DIFF_BIAS,
                              wrap(conv_.bias_desc(), target + conv_.order_bytes()));
        }
        execute("conv gradient of weights", made.primitive, arguments);
        if (adds) {
            accumulate(reinterpret_cast<float*>(sums), reinterpret_cast<float*>(scratch),
                       static_cast<std::int64_t>(sum_bytes() / sizeof(float)));
        }
    }

    [[nodiscard]] std::size_t finish_bytes() const override { return conv_.staging_bytes(); }
    void finish(const std::byte* sums, std::byte* memory, float* weights,
                float* bias) const override {
        auto* staging = reinterpret_cast<float*>(memory);
        reorder_->run(sums, conv_.pads() ? staging : weights);
        if (conv_.pads()) {
            conv_.take_weights(staging, weights);
        }
        if (bias != nullptr) {
            std::copy_n(reinterpret_cast<const float*>(sums + conv_.order_bytes()),
                        conv_.problem().options.channels, bias);
        }
    }

private:
    DnnlConv conv_;
    std::unique_ptr<WeightReorder> reorder_;
};

}  // namespace

std::unique_ptr<ConvProduct> make_dnnl_conv(const ConvProblem& problem, ConvDirection direction,
                                            DnnlConvKind kind) {
    return std::make_unique<DnnlProduct>(problem, direction, kind);
}

std::unique_ptr<ConvWeightGradient> make_dnnl_conv_gradient(const ConvProblem& problem,
                                                            DnnlConvKind kind) {
    return std::make_unique<DnnlGradient>(problem, kind);
}

}  // namespace cohort
