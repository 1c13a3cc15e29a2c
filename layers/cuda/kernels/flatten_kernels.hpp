#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cohort/tensor/element.hpp"

namespace cohort::cuda {

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
