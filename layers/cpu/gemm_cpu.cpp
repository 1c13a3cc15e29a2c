#include "layers/cpu/gemm_cpu.hpp"

#include <string>

#include "layers/cpu/dnnl_support.hpp"

namespace cohort {

void sgemm(char transpose_a, char transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
           const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
           std::int64_t ldc) {
    const dnnl_status_t status =
        dnnl_sgemm(transpose_a, transpose_b, m, n, k, 1.0F, a, lda, b, ldb, beta, c, ldc);
    if (status != dnnl_success) {
        fail<DeviceError>({.where = "matrix product",
                           .what = "dnnl_sgemm reported status " + std::to_string(status)});
    }
}

}  // namespace cohort
