#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <string>

#include "cohort/layers/kernel.hpp"
#include "cohort/tensor/cuda_library.hpp"

// Matrix products by cuBLASLt.
namespace cohort::cuda {

/// The functions of cuBLASLt that are used, with the header's signatures.
struct BlasTable {
    decltype(&cublasLtCreate) create = nullptr;
    decltype(&cublasLtGetVersion) version = nullptr;
    decltype(&cublasLtGetStatusString) status_string = nullptr;
    decltype(&cublasLtMatmul) matmul = nullptr;
    decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
    decltype(&cublasLtMatmulDescCreate) operation_create = nullptr;
    decltype(&cublasLtMatmulDescDestroy) operation_destroy = nullptr;
    decltype(&cublasLtMatmulDescSetAttribute) operation_set = nullptr;
    decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
    decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
    decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
    decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
    decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
};
/// Loaded at first use. Errors: DeviceError when the library or one of them is missing.
[[nodiscard]] const BlasTable& blas();

/// Throws DeviceError unless `status` is CUBLAS_STATUS_SUCCESS.
void check_blas(cublasStatus_t status, const char* operation);

/// What is done to a product before it is stored.
enum class Epilogue { kNone, kBias, kRelu, kBiasRelu };

/// D[rows, columns] = op(A) op(B), all row-major without gaps; op(A) is [rows, depth].
struct ProductShape {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t depth = 0;
    bool transpose_a = false;  ///< A lies as [depth, rows]
    bool transpose_b = false;  ///< B lies as [columns, depth]
    ElementType in = ElementType::kF32;
    ElementType out = ElementType::kF32;
    /// The bias has an element of type `out` for every column.
    Epilogue epilogue = Epilogue::kNone;
};

/// A matrix as it lies in memory, column-major.
struct ColumnMajor {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    bool transposed = false;  ///< before it is multiplied
    /// From one column to the next.
    [[nodiscard]] std::int64_t stride() const noexcept { return rows; }
};
/// The same product for a library whose matrices are column-major: D^T = op(B)^T op(A)^T.
struct ColumnMajorProduct {
    ColumnMajor first;   ///< B's memory
    ColumnMajor second;  ///< A's memory
    ColumnMajor result;  ///< D's memory
};
[[nodiscard]] ColumnMajorProduct column_major(const ProductShape& shape) noexcept;

/// Everything that the choice of an algorithm depends on but the GPU and the library, for
/// TuningCache: "f32 tf32 128x10x512 ...".
[[nodiscard]] std::string product_key(const ProductShape& shape, Precision precision);

/// A product with its algorithm. Making one may measure: it queues work and waits for it.
class Product {
public:
    /// Errors: DeviceError when the library has no algorithm for it.
    Product(const ProductShape& shape, const KernelContext& context);
    Product(const Product&) = delete;
    Product& operator=(const Product&) = delete;
    ~Product();

    /// Device memory that run() wants.
    [[nodiscard]] std::size_t scratch_bytes() const noexcept;
    /// The shape's epilogue, or kNone where no algorithm has it: the caller's work then.
    [[nodiscard]] Epilogue epilogue() const noexcept;
    /// Queues the product; can be recorded. @param bias  null where the epilogue has none
    /// @param scratch  aligned to 256 bytes; matrices and bias to 16
    void run(const void* a, const void* b, void* d, const void* bias, void* scratch);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace cohort::cuda
