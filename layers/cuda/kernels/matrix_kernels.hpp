#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cohort/core/host_device.hpp"
#include "cohort/tensor/element.hpp"

namespace cohort::cuda {

/// A stretch of the columns of one matrix that goes to a stretch of another's; in elements.
struct ColumnCopy {
    std::int64_t rows = 0;
    std::int64_t width = 0;        ///< columns that are copied
    std::int64_t filled = 0;       ///< columns written, >= width: the rest becomes zero
    std::int64_t from_stride = 0;  ///< from one row to the next
    std::int64_t from_column = 0;
    std::int64_t to_stride = 0;
    std::int64_t to_column = 0;
};

/// The same copy in units of `unit` elements. All of its numbers but `rows` must be multiples.
[[nodiscard]] constexpr ColumnCopy in_units(const ColumnCopy& copy, std::int64_t unit) noexcept {
    return {copy.rows,
            copy.width / unit,
            copy.filled / unit,
            copy.from_stride / unit,
            copy.from_column / unit,
            copy.to_stride / unit,
            copy.to_column / unit};
}

/// The widest unit of 16, 8, 4 or 2 bytes that all numbers of the copy are multiples of, in bytes.
[[nodiscard]] constexpr std::int64_t copy_unit_bytes(const ColumnCopy& copy,
                                                     std::int64_t element_bytes) noexcept {
    for (std::int64_t bytes = 16; bytes > element_bytes; bytes /= 2) {
        const std::int64_t unit = bytes / element_bytes;
        if (copy.width % unit == 0 && copy.filled % unit == 0 && copy.from_stride % unit == 0 &&
            copy.from_column % unit == 0 && copy.to_stride % unit == 0 &&
            copy.to_column % unit == 0) {
            return bytes;
        }
    }
    return element_bytes;
}

/// Element `i` of the copy's rows * filled: where it is read (-1: it is zero) and written.
struct CopyPlaces {
    std::int64_t from;
    std::int64_t to;
};
/// @tparam Index  unsigned, wide enough for rows * filled: divisions of 32 bits are faster
template <class Index>
[[nodiscard]] COHORT_HD inline CopyPlaces copy_places(const ColumnCopy& copy, Index i) {
    const auto filled = static_cast<Index>(copy.filled);
    const auto row = static_cast<std::int64_t>(i / filled);
    const auto column = static_cast<std::int64_t>(i % filled);
    const std::int64_t from = row * copy.from_stride + copy.from_column + column;
    return {column < copy.width ? from : -1, row * copy.to_stride + copy.to_column + column};
}

/// Queues the copy. Both matrices begin at multiples of 16 bytes.
void copy_columns(cudaStream_t stream, ElementType type, const ColumnCopy& copy, void* to,
                  const void* from);

/// Transposes every matrix of a batch: [rows, columns] of `from` becomes [columns, rows] of `to`;
/// strides are from one row to the next, in elements, >= its length. Elements of `to` between a
/// row's end and the next row become zero; those of `from` are not read.
struct BatchTranspose {
    std::int64_t batch = 0;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t from_stride = 0;  ///< >= columns
    std::int64_t to_stride = 0;    ///< >= rows
};

void transpose_batch(cudaStream_t stream, ElementType type, const BatchTranspose& shape, void* to,
                     const void* from);

}  // namespace cohort::cuda
