#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cohort/tensor/element.hpp"

// Rows of tables by tokens and by positions; device memory throughout.
namespace cohort::cuda {

/// The tokens of a batch; each stands for a row of a table.
struct TokenRows {
    const std::int32_t* tokens = nullptr;  ///< [count]
    std::int64_t count = 0;
    std::int64_t features = 0;  ///< of a row
};

/// to[i] = table[tokens[i]], in `type`; the table is single precision.
void gather_rows(cudaStream_t stream, ElementType type, const TokenRows& rows, const float* table,
                 void* to);

/// Bytes of scratch that add_rows() wants.
[[nodiscard]] std::size_t row_sum_scratch(std::int64_t count);
/// table[token] += the sum of from[i] over all i where it stands, in single precision, in an order
/// that depends on the tokens alone; other rows are not touched. @param from  [count, features]
void add_rows(cudaStream_t stream, ElementType type, const TokenRows& rows, const void* from,
              float* table, void* scratch);

/// y = scale x + table, samples of `width` elements; the table, [width], is single precision.
void add_table(cudaStream_t stream, ElementType type, void* y, const void* x, const float* table,
               float scale, std::int64_t samples, std::int64_t width);
/// y = factor x.
void scale_elements(cudaStream_t stream, ElementType type, void* y, const void* x, float factor,
                    std::int64_t count);

}  // namespace cohort::cuda
