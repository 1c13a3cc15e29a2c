#include "layers/cuda/dnn/blas.hpp"

#include <array>

#include "cohort/core/error.hpp"

namespace cohort::cuda {
namespace {

constexpr std::uint32_t kMatrixAlignment = 16;  // bytes that all matrices are aligned to

cudaDataType_t data_type(ElementType type) {
    switch (type) {
        case ElementType::kBf16: return CUDA_R_16BF;
        case ElementType::kF16: return CUDA_R_16F;
        default: return CUDA_R_32F;
    }
}

cublasComputeType_t compute_type(Precision precision) {
    return precision == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

BlasDescriptor<cublasLtMatrixLayout_t> layout_of(const ColumnMajor& matrix, ElementType type,
                                                 std::int64_t batch) {
    cublasLtMatrixLayout_t made = nullptr;
    check_blas(blas().layout_create(&made, data_type(type), static_cast<std::uint64_t>(matrix.rows),
                                    static_cast<std::uint64_t>(matrix.columns), matrix.stride()),
               "cublasLtMatrixLayoutCreate");
    BlasDescriptor<cublasLtMatrixLayout_t> layout{made, blas().layout_destroy};
    if (batch > 1) {
        const auto count = static_cast<std::int32_t>(batch);
        const std::int64_t elements = matrix.stride() * matrix.columns;
        check_blas(
            blas().layout_set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
            "cublasLtMatrixLayoutSetAttribute");
        check_blas(blas().layout_set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &elements,
                                     sizeof elements),
                   "cublasLtMatrixLayoutSetAttribute");
    }
    return layout;
}

BlasDescriptor<cublasLtMatmulDesc_t> operation_in(Precision precision) {
    cublasLtMatmulDesc_t made = nullptr;
    check_blas(blas().operation_create(&made, compute_type(precision), CUDA_R_32F),
               "cublasLtMatmulDescCreate");
    return {made, blas().operation_destroy};
}

BlasDescriptor<cublasLtMatmulPreference_t> new_preference() {
    cublasLtMatmulPreference_t made = nullptr;
    check_blas(blas().preference_create(&made), "cublasLtMatmulPreferenceCreate");
    return {made, blas().preference_destroy};
}

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check_blas(blas().operation_set(operation, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
}
template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
    check_blas(blas().preference_set(preference, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
}

/// How the parts of a product that is split along its depth may be added up: in single precision.
/// Not in an output of 16 bits, nor in parts of its type; if the order must not depend on chance,
/// not in the output at all.
std::uint32_t reduction_schemes(ElementType out, bool deterministic) {
    std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (out == ElementType::kF32) {
        schemes |= CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
        schemes |= deterministic ? 0U : std::uint32_t{CUBLASLT_REDUCTION_SCHEME_INPLACE};
    }
    return schemes;
}

void fill_preference(cublasLtMatmulPreference_t preference, ElementType out, bool deterministic) {
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        static_cast<std::uint64_t>(kMostProductScratch));
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        reduction_schemes(out, deterministic));
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
        set(preference, attribute, kMatrixAlignment);
    }
}

}  // namespace

const BlasTable& blas() {
    static const BlasTable table;
    return table;
}

void check_blas(cublasStatus_t status, const char* operation) {
    if (status != CUBLAS_STATUS_SUCCESS) {
        fail<DeviceError>({.where = operation,
                           .what = std::string("cuBLASLt reported ") + blas().status_name(status)});
    }
}

ColumnMajorProduct column_major(const ProductShape& s) noexcept {
    ColumnMajorProduct product;
    // A row-major [r, c] is a column-major [c, r].
    product.first = s.transpose_b ? ColumnMajor{s.depth, s.columns, true}
                                  : ColumnMajor{s.columns, s.depth, false};
    product.second =
        s.transpose_a ? ColumnMajor{s.rows, s.depth, true} : ColumnMajor{s.depth, s.rows, false};
    product.result = {s.columns, s.rows, false};
    return product;
}

std::string product_key(const ProductShape& shape, Precision precision) {
    return std::string("product ") + std::string(word_of(precision)) + " " +
           std::string(word_of(shape.in)) + ">" + std::string(word_of(shape.out)) + " " +
           std::to_string(shape.rows) + "x" + std::to_string(shape.columns) + "x" +
           std::to_string(shape.depth) + (shape.transpose_a ? " T" : " N") +
           (shape.transpose_b ? "T" : "N") + (shape.epilogue == Epilogue::kBias ? " bias" : "") +
           (shape.batch > 1 ? " batch " + std::to_string(shape.batch) : "");
}

ProductDescription::ProductDescription(const ProductShape& shape, Precision precision,
                                       bool deterministic)
    : out_(shape.out),
      operation_(operation_in(precision)),
      first_(layout_of(column_major(shape).first, shape.in, shape.batch)),
      second_(layout_of(column_major(shape).second, shape.in, shape.batch)),
      result_(layout_of(column_major(shape).result, shape.out, shape.batch)),
      preference_(new_preference()) {
    const ColumnMajorProduct product = column_major(shape);
    const auto transposed = [](const ColumnMajor& m) {
        return static_cast<std::int32_t>(m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    };
    set(operation(), CUBLASLT_MATMUL_DESC_TRANSA, transposed(product.first));
    set(operation(), CUBLASLT_MATMUL_DESC_TRANSB, transposed(product.second));
    set_epilogue(shape.epilogue);
    fill_preference(preference(), shape.out, deterministic);
}

void ProductDescription::set_epilogue(Epilogue epilogue) {
    const bool bias = epilogue == Epilogue::kBias;
    set(operation(), CUBLASLT_MATMUL_DESC_EPILOGUE,
        static_cast<std::uint32_t>(bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT));
    if (bias) {
        set(operation(), CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
            static_cast<std::int32_t>(data_type(out_)));
        // No data are read yet: the address tells the alignment of the bias.
        constexpr std::size_t kTwice = std::size_t{2} * kMatrixAlignment;
        alignas(kTwice) static constexpr std::array<char, kTwice> kPlaces{};
        set_bias(kPlaces.data() + kMatrixAlignment);
    }
}

void ProductDescription::set_bias(const void* bias) const {
    set(operation(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
}

}  // namespace cohort::cuda
