#pragma once

#include <cstdint>

#include "cohort/tensor/element.hpp"

namespace cohort {

/// Products of matrices of single precision on the calling thread; in Precision::kBf16 operands are
/// rounded to bfloat16 (8 bits) and products summed in single precision.
class MatrixProduct {
public:
    explicit MatrixProduct(Precision precision) : short_(precision == Precision::kBf16) {}

    /// Row-major c[m,n] = op(a) op(b) + beta c.
    /// @param transpose_a, transpose_b  'N' or 'T'  @param lda, ldb, ldc  floats from row to row
    /// @param beta  0 or 1
    /// Errors: DeviceError.
    void operator()(char transpose_a, char transpose_b, std::int64_t m, std::int64_t n,
                    std::int64_t k, const float* a, std::int64_t lda, const float* b,
                    std::int64_t ldb, float beta, float* c, std::int64_t ldc) const;

private:
    bool short_;
};

}  // namespace cohort
