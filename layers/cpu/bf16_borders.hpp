#pragma once

#include <memory>

#include "cohort/layers/kernel.hpp"

namespace cohort {

/// A kernel of the CPU in Precision::kBf16 made of one that reads and writes single precision: each
/// slice's tensors are widened before a call and rounded after it, while they are in cache.
/// @param inner    made of single_precision(context)
/// @param context  the outer one
[[nodiscard]] std::unique_ptr<Kernel> make_bf16_borders(std::unique_ptr<Kernel> inner,
                                                        const KernelContext& context);

/// The context whose bfloat16 inputs are single precision. Its precision stays: products of
/// matrices inside of the borders round their operands.
[[nodiscard]] KernelContext single_precision(const KernelContext& context);

}  // namespace cohort
