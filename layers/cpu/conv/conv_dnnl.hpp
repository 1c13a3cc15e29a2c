#pragma once

#include <memory>

#include "layers/cpu/conv/conv_algorithm.hpp"

// Convolutions by oneDNN, for tensors that both have one type. Channels are padded to whole blocks
// where memory is blocked: weights of the missing ones are zero.
namespace cohort {

enum class DnnlConvKind { kDirect, kWinograd };

/// @param direction  kForward or kData
/// Its prepare() is false where oneDNN has nothing, or nothing but a reference implementation.
[[nodiscard]] std::unique_ptr<ConvProduct> make_dnnl_conv(const ConvProblem& problem,
                                                          ConvDirection direction,
                                                          DnnlConvKind kind);
[[nodiscard]] std::unique_ptr<ConvWeightGradient> make_dnnl_conv_gradient(
    const ConvProblem& problem, DnnlConvKind kind);

}  // namespace cohort
