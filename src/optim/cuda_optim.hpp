#pragma once

#include <memory>

#include "optim/device_math.hpp"
#include "optim/updates.hpp"

// The CUDA side of this module; cuda_none.cpp has the same symbols and refuses.
namespace cohort {

/// The update rules on a GPU: a piece is one launch.
[[nodiscard]] std::unique_ptr<Updates> make_cuda_updates(const FlatLayout& layout,
                                                         std::int64_t begin, std::int64_t end,
                                                         Device& device, Stream& stream);
[[nodiscard]] std::unique_ptr<DeviceMath> make_cuda_math(Device& device, Stream& stream);

}  // namespace cohort
