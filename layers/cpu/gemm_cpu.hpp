#pragma once

#include <cstdint>

namespace cohort {

/// Row-major c[m,n] = op(a) op(b) + beta c by oneDNN, on the calling thread.
/// @param transpose_a, transpose_b  'N' or 'T'  @param lda, ldb, ldc  floats from row to row
/// Errors: DeviceError.
void sgemm(char transpose_a, char transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
           const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
           std::int64_t ldc);

}  // namespace cohort
