#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <string>

#include "cohort/layers/kernel.hpp"
#include "core/tensor/cuda_library.hpp"

// cuBLASLt: its functions, and products as it wants them described.
namespace cohort::cuda {

/// The functions of cuBLASLt that are used, with the header's signatures.
struct BlasTable {
    COHORT_LIBRARY_FUNCTION(blas_library, create, cublasLtCreate);
    COHORT_LIBRARY_FUNCTION(blas_library, version, cublasLtGetVersion);
    COHORT_LIBRARY_FUNCTION(blas_library, status_name, cublasLtGetStatusName);
    COHORT_LIBRARY_FUNCTION(blas_library, matmul, cublasLtMatmul);
    COHORT_LIBRARY_FUNCTION(blas_library, heuristic, cublasLtMatmulAlgoGetHeuristic);
    COHORT_LIBRARY_FUNCTION(blas_library, check_algorithm, cublasLtMatmulAlgoCheck);
    COHORT_LIBRARY_FUNCTION(blas_library, operation_create, cublasLtMatmulDescCreate);
    COHORT_LIBRARY_FUNCTION(blas_library, operation_destroy, cublasLtMatmulDescDestroy);
    COHORT_LIBRARY_FUNCTION(blas_library, operation_set, cublasLtMatmulDescSetAttribute);
    COHORT_LIBRARY_FUNCTION(blas_library, layout_create, cublasLtMatrixLayoutCreate);
    COHORT_LIBRARY_FUNCTION(blas_library, layout_destroy, cublasLtMatrixLayoutDestroy);
    COHORT_LIBRARY_FUNCTION(blas_library, layout_set, cublasLtMatrixLayoutSetAttribute);
    COHORT_LIBRARY_FUNCTION(blas_library, preference_create, cublasLtMatmulPreferenceCreate);
    COHORT_LIBRARY_FUNCTION(blas_library, preference_destroy, cublasLtMatmulPreferenceDestroy);
    COHORT_LIBRARY_FUNCTION(blas_library, preference_set, cublasLtMatmulPreferenceSetAttribute);
};
/// Most scratch memory that an algorithm may want.
inline constexpr std::size_t kMostProductScratch = std::size_t{32} << 20;

/// Loaded at first use. Errors: DeviceError when the library or one of them is missing.
[[nodiscard]] const BlasTable& blas();

/// Throws DeviceError unless `status` is CUBLAS_STATUS_SUCCESS.
void check_blas(cublasStatus_t status, const char* operation);

/// What is done to a product before it is stored. Never a ReLU: the library's is max(x, 0), which
/// may make 0 of a NaN.
enum class Epilogue { kNone, kBias };

/// D[rows, columns] = op(A) op(B), all row-major without gaps; op(A) is [rows, depth]. Of a batch
/// the matrices lie one behind the other.
struct ProductShape {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t depth = 0;
    std::int64_t batch = 1;
    bool transpose_a = false;  ///< A lies as [depth, rows]
    bool transpose_b = false;  ///< B lies as [columns, depth]
    ElementType in = ElementType::kF32;
    ElementType out = ElementType::kF32;
    /// The bias has an element of type `out` for every column.
    Epilogue epilogue = Epilogue::kNone;

    friend bool operator==(const ProductShape&, const ProductShape&) noexcept = default;
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

template <class T>
using BlasDescriptor = LibraryDescriptor<T, cublasStatus_t>;

/// A product as the library describes it; needs no GPU.
class ProductDescription {
public:
    /// Errors: DeviceError.
    ProductDescription(const ProductShape& shape, Precision precision, bool deterministic);

    /// Another epilogue than the shape's. A bias's type and alignment are said along with it.
    void set_epilogue(Epilogue epilogue);
    void set_bias(const void* bias) const;

    [[nodiscard]] cublasLtMatmulDesc_t operation() const noexcept { return operation_.get(); }
    [[nodiscard]] cublasLtMatrixLayout_t first() const noexcept { return first_.get(); }
    [[nodiscard]] cublasLtMatrixLayout_t second() const noexcept { return second_.get(); }
    [[nodiscard]] cublasLtMatrixLayout_t result() const noexcept { return result_.get(); }
    [[nodiscard]] cublasLtMatmulPreference_t preference() const noexcept {
        return preference_.get();
    }

private:
    ElementType out_;
    BlasDescriptor<cublasLtMatmulDesc_t> operation_;
    BlasDescriptor<cublasLtMatrixLayout_t> first_;
    BlasDescriptor<cublasLtMatrixLayout_t> second_;
    BlasDescriptor<cublasLtMatrixLayout_t> result_;
    BlasDescriptor<cublasLtMatmulPreference_t> preference_;
};

}  // namespace cohort::cuda
