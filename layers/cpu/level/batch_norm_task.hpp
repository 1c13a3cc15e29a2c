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

/// Per-channel constants of the backward pass.
struct BnChannels {
    const float* mean;
    const float* scale;  ///< of the forward pass: y = x * scale + offset
    const float* offset;
};

/// How the ReLU's mask is found again: not at all (no ReLU), by recomputing y from x (cheaper than
/// reading it), or from y (when something was added).
enum class ReluMask { kNone, kFromInput, kFromOutput };

}  // namespace cohort
