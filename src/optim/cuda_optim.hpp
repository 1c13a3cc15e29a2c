#pragma once

#include <memory>

#include "cohort/optim/device_math.hpp"
#include "cohort/optim/optimizer.hpp"

// The CUDA side of this module; cuda_none.cpp has the same symbols and refuses.
namespace cohort {

/// make_optimizer() on a GPU, arguments checked. An update is one launch over the whole range.
[[nodiscard]] std::unique_ptr<Optimizer> make_cuda_optimizer(const OptimizerOptions& options,
                                                             const FlatLayout& layout,
                                                             std::int64_t begin, std::int64_t end,
                                                             Device& device, Stream& stream);
[[nodiscard]] std::unique_ptr<DeviceMath> make_cuda_math(Device& device, Stream& stream);

}  // namespace cohort
