#pragma once

#include <cstdint>
#include <vector>

#include "layers/cpu/conv/conv_algorithm.hpp"

namespace cohort {

/// A position of the kernel, and where it lies in the source.
struct ConvTap {
    std::int64_t cell = 0;  ///< row of the kernel x its width + column
    std::int64_t row = 0;   ///< rows and columns from a pixel's place; never negative
    std::int64_t column = 0;
};

/// Pixels of the target that are sums over the same taps: every jump-th one of a row and a column.
struct ConvPhase {
    std::int64_t row = 0;  ///< of its first pixel
    std::int64_t column = 0;
    std::int64_t rows = 0;  ///< that it has
    std::int64_t columns = 0;
    std::vector<ConvTap> taps;  ///< in the order of their places
};

/// Heights or widths.
struct ConvPlane {
    std::int64_t height = 0;
    std::int64_t width = 0;
};

/// A direction of a convolution as sums over taps: forward the source is the input and there is one
/// phase; the gradient of the input has the gradient of the output for a source, and a phase for
/// each place within a stride.
struct ConvGeometry {
    ConvPlane source;
    ConvPlane target;
    ConvPlane origin;  ///< row and column of the source under the first tap of the first pixel
    ConvPlane step;    ///< in the source, from a pixel of a phase to the next
    ConvPlane jump;    ///< in the target
    ConvPlane reach;   ///< most rows and columns of a tap
    std::vector<ConvPhase> phases;

    /// Rows (columns) of the source under `count` consecutive pixels of a phase's column (row).
    [[nodiscard]] std::int64_t rows_under(std::int64_t count) const {
        return (count - 1) * step.height + reach.height + 1;
    }
    [[nodiscard]] std::int64_t columns_under(std::int64_t count) const {
        return (count - 1) * step.width + reach.width + 1;
    }
    /// Of the largest phase, the first.
    [[nodiscard]] std::int64_t rows() const { return phases.front().rows; }
    [[nodiscard]] std::int64_t columns() const { return phases.front().columns; }
    /// No pixel needs a cell outside of the source.
    [[nodiscard]] bool within_source() const;
};

/// @param direction  of the gradient of weights the geometry is that of kForward
[[nodiscard]] ConvGeometry conv_geometry(const ConvProblem& problem, ConvDirection direction);

}  // namespace cohort
