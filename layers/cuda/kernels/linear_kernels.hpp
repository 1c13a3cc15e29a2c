#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cohort/tensor/element.hpp"

namespace cohort::cuda {

/// Bytes of scratch that sum_columns() wants.
[[nodiscard]] std::size_t column_sum_scratch(std::int64_t rows, std::int64_t columns);

/// sums[c] = sum over the rows of matrix[r, c], row-major; single precision, in an order that
/// depends on the sizes alone. @param adds  to what the sums hold
void sum_columns(cudaStream_t stream, ElementType type, float* sums, const void* matrix,
                 std::int64_t rows, std::int64_t columns, void* scratch, bool adds = false);

/// y[r, c] += bias[c], then ReLU when asked; the bias is single precision.
void add_bias(cudaStream_t stream, ElementType type, void* y, const float* bias, std::int64_t rows,
              std::int64_t columns, bool relu);

}  // namespace cohort::cuda
