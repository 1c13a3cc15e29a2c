#pragma once

#include <map>
#include <string>

#include "layers/cpu/dnnl_support.hpp"
#include "layers/kernels.hpp"
#include "layers/tuning.hpp"

namespace cohort {

/// The three directions of one convolution for one slice size.
struct ConvPrimitives {
    dnnl::convolution_forward forward;
    dnnl::convolution_backward_data backward_data;  ///< empty when not wanted
    dnnl::convolution_backward_weights backward_weights;
    dnnl::memory::desc source;
    dnnl::memory::desc output;
    dnnl::memory::desc forward_scratch;
    dnnl::memory::desc data_scratch;
    dnnl::memory::desc weights_scratch;
};

/// Makes and keeps the primitives of one convolution. Each direction runs direct or as Winograd
/// F(4x4, 3x3) (Lavin & Gray 2015): a quarter of the multiplications at 1e-4 of the largest value
/// as error bound (tested), whichever is faster here, measured at the first slice size. In
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

    /// Row-major weights with the channels above, and as each direction wants them (after prepare).
    [[nodiscard]] const dnnl::memory::desc& canonical_weights() const { return canonical_; }
    [[nodiscard]] const dnnl::memory::desc& forward_weights() const { return forward_.weights; }
    [[nodiscard]] const dnnl::memory::desc& data_weights() const { return data_.weights; }
    [[nodiscard]] const dnnl::memory::desc& weights_gradient() const { return weights_.weights; }

private:
    enum class Direction { kForward, kData, kWeights };
    struct Problem;
    /// What the first slice size decides for a direction.
    struct Chosen {
        dnnl::algorithm algorithm = dnnl::algorithm::undef;
        dnnl::memory::desc weights;
    };

    [[nodiscard]] const TensorFormat& input() const { return context_.inputs.front(); }
    [[nodiscard]] dnnl::memory::desc activation(const TensorFormat& format,
                                                std::int64_t samples) const;
    [[nodiscard]] Problem problem(std::int64_t samples) const;
    [[nodiscard]] dnnl::algorithm choose(Direction direction, std::int64_t samples);
    [[nodiscard]] double measure(Direction direction, dnnl::algorithm algorithm,
                                 std::int64_t samples);
    [[nodiscard]] dnnl::convolution_forward::primitive_desc forward_desc(
        const Problem& problem, dnnl::algorithm algorithm, const dnnl::memory::desc& weights) const;
    [[nodiscard]] dnnl::convolution_backward_data::primitive_desc data_desc(
        const Problem& problem, dnnl::algorithm algorithm, const dnnl::memory::desc& weights) const;
    [[nodiscard]] dnnl::convolution_backward_weights::primitive_desc weights_desc(
        const Problem& problem, dnnl::algorithm algorithm, const dnnl::memory::desc& weights) const;
    [[nodiscard]] bool winograd_possible() const;

    ConvSpec spec_;
    KernelContext context_;
    TensorFormat output_;
    std::int64_t input_channels_ = 0;
    std::int64_t output_channels_ = 0;
    dnnl::memory::desc canonical_;
    dnnl::memory::desc any_weights_;
    Chosen forward_;
    Chosen data_;
    Chosen weights_;  ///< their gradient
    std::map<std::int64_t, ConvPrimitives> made_;
};

}  // namespace cohort
