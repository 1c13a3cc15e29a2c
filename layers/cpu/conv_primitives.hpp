#pragma once

#include <map>

#include "layers/cpu/dnnl_support.hpp"
#include "layers/kernels.hpp"
#include "layers/tuning.hpp"

namespace cohort {

/// One direction of a convolution for one slice size, and the memory that it reads and writes.
template <class Primitive>
struct ConvPrimitive {
    Primitive primitive;
    dnnl::memory::desc source;
    dnnl::memory::desc output;
    dnnl::memory::desc scratch;
};
struct ConvPrimitives {
    ConvPrimitive<dnnl::convolution_forward> forward;
    ConvPrimitive<dnnl::convolution_backward_data> data;  ///< empty when not wanted
    ConvPrimitive<dnnl::convolution_backward_weights> weights;
};

/// How a direction is computed.
struct ConvChoice {
    dnnl::algorithm algorithm = dnnl::algorithm::undef;
    ElementType type = ElementType::kF32;  ///< of source and output as the primitive has them
    dnnl::memory::desc weights;            ///< their order, or that of their gradient (kF32)
};

/// Makes and keeps the primitives of one convolution. Each direction runs direct or as Winograd
/// F(4x4, 3x3) (Lavin & Gray 2015): a quarter of the multiplications at 1e-4 of the largest value
/// as error bound (tested), whichever is faster here, measured at the first slice size. In
/// Precision::kBf16 direct in bfloat16, or as before with source and output converted. In
/// deterministic mode a fixed rule decides.
class ConvPlan {
public:
    ConvPlan(const ConvSpec& spec, const KernelContext& context);

    [[nodiscard]] const TensorFormat& output() const noexcept { return output_; }
    /// Makes the primitives for `samples` unless they are there.
    const ConvPrimitives& prepare(std::int64_t samples);
    /// Those made before. Thread safe once prepared.
    [[nodiscard]] const ConvPrimitives& at(std::int64_t samples) const { return made_.at(samples); }

    /// Channels as the primitives see them: whole blocks where memory is blocked.
    [[nodiscard]] std::int64_t input_channels() const noexcept { return input_channels_; }
    [[nodiscard]] std::int64_t output_channels() const noexcept { return output_channels_; }
    /// True when those differ from the layer's own, so that weights need padding with zeros.
    [[nodiscard]] bool pads_channels() const noexcept {
        return input_channels_ != input().shape[0] || output_channels_ != spec_.options.channels;
    }

    /// Row-major weights with the channels above.
    [[nodiscard]] const dnnl::memory::desc& canonical_weights() const { return canonical_; }
    /// Of each direction, after prepare.
    [[nodiscard]] const ConvChoice& forward() const { return forward_; }
    [[nodiscard]] const ConvChoice& data() const { return data_; }
    [[nodiscard]] const ConvChoice& weights() const { return weights_; }

private:
    enum class Direction { kForward, kData, kWeights };
    struct Problem;
    [[nodiscard]] const TensorFormat& input() const { return context_.inputs.front(); }
    [[nodiscard]] Problem problem(ElementType type, std::int64_t samples) const;
    [[nodiscard]] ConvChoice choose(Direction direction, std::int64_t samples);
    [[nodiscard]] ConvChoice choose_by_rule(Direction direction, std::int64_t samples) const;
    /// oneDNN has it, and not as plain loops.
    [[nodiscard]] bool usable(Direction direction, const ConvChoice& choice,
                              std::int64_t samples) const;
    [[nodiscard]] double measure(Direction direction, const ConvChoice& choice,
                                 std::int64_t samples) const;
    [[nodiscard]] dnnl::convolution_forward::primitive_desc forward_desc(
        const Problem& problem, dnnl::algorithm algorithm, const dnnl::memory::desc& weights) const;
    [[nodiscard]] dnnl::convolution_backward_data::primitive_desc data_desc(
        const Problem& problem, dnnl::algorithm algorithm, const dnnl::memory::desc& weights) const;
    [[nodiscard]] dnnl::convolution_backward_weights::primitive_desc weights_desc(
        const Problem& problem, dnnl::algorithm algorithm, const dnnl::memory::desc& weights) const;
    /// f(description, order of its weights) of a direction with weights in any order.
    template <class F>
    decltype(auto) with_desc(Direction direction, const ConvChoice& choice, std::int64_t samples,
                             F&& f) const;

    ConvSpec spec_;
    KernelContext context_;
    TensorFormat output_;
    std::int64_t input_channels_ = 0;
    std::int64_t output_channels_ = 0;
    dnnl::memory::desc canonical_;
    ConvChoice forward_;
    ConvChoice data_;
    ConvChoice weights_;
    std::map<std::int64_t, ConvPrimitives> made_;
};

}  // namespace cohort
