#pragma once

#include <memory>

#include "layers/kernels.hpp"

namespace cohort {

/// A linear layer on a sequence [T,F] and the softmax cross entropy of its outputs as one kernel of
/// the CPU, for training: see Layer::compile_with_loss.
[[nodiscard]] MadeKernel make_linear_loss(const LinearSpec& spec, const KernelContext& context);

}  // namespace cohort
