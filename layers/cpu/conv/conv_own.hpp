#pragma once

#include <memory>

#include "layers/cpu/conv/conv_algorithm.hpp"

// Our own convolutions, for tensors of single precision: every kernel, stride, dilation, padding,
// number of groups and order of the channels, by sums over taps (conv_geometry.hpp) in loops that
// keep a tile of pixels x output channels in registers (conv_loops.hpp). Cost: the products
// themselves, a copy of the source by pixels where it has padding, and one of the weights per pass.
// Memory: scratch of some hundred KiB; weights once.
namespace cohort {

/// @param direction  kForward or kData
[[nodiscard]] std::unique_ptr<ConvProduct> make_own_conv(const ConvProblem& problem,
                                                         ConvDirection direction);
[[nodiscard]] std::unique_ptr<ConvWeightGradient> make_own_conv_gradient(
    const ConvProblem& problem);

}  // namespace cohort
