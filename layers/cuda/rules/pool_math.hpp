#pragma once

#include <cstddef>
#include <cstdint>

#include "cohort/core/host_device.hpp"

// Which cells a window covers, and the other way about. No CUDA in it.
namespace cohort::cuda {

/// Half-open range of cells or windows along one axis.
struct PoolRange {
    std::int64_t first = 0;
    std::int64_t last = 0;
};
/// Cells that window `index` covers, those outside [0, extent) left out.
COHORT_HD constexpr PoolRange window_cells(std::int64_t index, std::int64_t kernel,
                                           std::int64_t stride, std::int64_t padding,
                                           std::int64_t extent) {
    const std::int64_t first = index * stride - padding;
    const std::int64_t last = first + kernel;
    return {first < 0 ? 0 : first, last < extent ? last : extent};
}
/// Windows, of `windows`, that cover `cell`.
COHORT_HD constexpr PoolRange cell_windows(std::int64_t cell, std::int64_t kernel,
                                           std::int64_t stride, std::int64_t padding,
                                           std::int64_t windows) {
    const std::int64_t reach = cell + padding;
    const std::int64_t first = reach < kernel ? 0 : (reach - kernel) / stride + 1;
    const std::int64_t last = reach / stride + 1;
    return {first, last < windows ? last : windows};
}

/// Bytes of a place within a window; 0: the window is too large for any.
[[nodiscard]] constexpr std::size_t place_bytes(std::int64_t kernel) noexcept {
    return kernel <= 16 ? 1 : (kernel <= 256 ? 2 : 0);
}

}  // namespace cohort::cuda
