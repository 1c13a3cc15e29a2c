#pragma once

#include <cstdint>

// Tensors are of Element: float, or std::uint16_t for bfloat16. Statistics and sums are the same
// for both.
namespace cohort {

/// A slice seen as [samples][groups][pixels][lanes]; the channel is group * lanes + lane.
/// Blocked [N,C/b,H,W,b]: lanes = b. Row-major [N,C,H,W]: lanes = 1. [N,F]: one group of F lanes.
struct ChannelView {
    std::int64_t samples;
    std::int64_t groups;
    std::int64_t pixels;
    std::int64_t lanes;
};

/// sum[c] += sum (x - shift[c]); square[c] += sum (x - shift[c])^2. The shift keeps the variance
/// from cancelling when |mean| >> deviation.
template <class Element>
void bn_statistics(const ChannelView& view, const Element* x, const float* shift, double* sum,
                   double* square);

/// y = x * scale[c] + offset[c] (+ added), ReLU when asked. `added` may be nullptr.
template <class Element>
void bn_apply(const ChannelView& view, const Element* x, const float* scale, const float* offset,
              const Element* added, bool relu, Element* y);

/// Per-channel constants of the backward pass.
struct BnChannels {
    const float* mean;
    const float* scale;  ///< of the forward pass: y = x * scale + offset
    const float* offset;
};

/// How the ReLU's mask is found again: not at all (no ReLU), by recomputing y from x (cheaper than
/// reading it), or from y (when something was added).
enum class ReluMask { kNone, kFromInput, kFromOutput };

/// With g = gradient, masked in place: sum[c] += sum g; product[c] += sum g (x - mean[c]).
/// y is read only with kFromOutput.
template <class Element>
void bn_reduce(const ChannelView& view, const BnChannels& channels, ReluMask mask, const Element* x,
               const Element* y, Element* gradient, double* sum, double* product);

/// gradient_x = a[c] g + b[c] (x - mean[c]) + d[c].
template <class Element>
void bn_input_gradient(const ChannelView& view, const Element* x, const Element* gradient,
                       const float* mean, const float* a, const float* b, const float* d,
                       Element* gradient_x);

}  // namespace cohort
