#pragma once

#include <cstdint>

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
void bn_statistics(const ChannelView& view, const float* x, const float* shift, double* sum,
                   double* square);

/// y = x * scale[c] + offset[c] (+ added), ReLU when asked. `added` may be nullptr.
void bn_apply(const ChannelView& view, const float* x, const float* scale, const float* offset,
              const float* added, bool relu, float* y);

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
void bn_reduce(const ChannelView& view, const BnChannels& channels, ReluMask mask, const float* x,
               const float* y, float* gradient, double* sum, double* product);

/// gradient_x = a[c] g + b[c] (x - mean[c]) + d[c].
void bn_input_gradient(const ChannelView& view, const float* x, const float* gradient,
                       const float* mean, const float* a, const float* b, const float* d,
                       float* gradient_x);

}  // namespace cohort
