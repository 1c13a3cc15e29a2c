// What the backend uses of cuBLASLt, in plain loops: products of column-major matrices, with a
// bias. There are two algorithms for each.
#include <cublasLt.h>

#include <vector>

#include "library.hpp"
#include "support/gpu/cuda_on_cpu.hpp"

namespace cohort::on_cpu {
namespace {

constexpr std::size_t kWorkspace = 500;  // bytes; odd on purpose

struct Layout {
    ElementType type{};
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t stride = 0;
    std::int64_t batch = 1;
    std::int64_t offset = 0;  ///< elements from one matrix of a batch to the next
};
struct Operation {
    std::map<int, std::uint64_t> attributes;
    [[nodiscard]] std::uint64_t get(int name) const {
        const auto found = attributes.find(name);
        return found == attributes.end() ? 0 : found->second;
    }
};

ElementType type_of(cudaDataType_t type) {
    return type == CUDA_R_32F    ? ElementType::kF32
           : type == CUDA_R_16BF ? ElementType::kBf16
                                 : ElementType::kF16;
}

cublasStatus_t create(cublasLtHandle_t* handle) {
    static int something = 0;
    *handle = reinterpret_cast<cublasLtHandle_t>(&something);
    return CUBLAS_STATUS_SUCCESS;
}
std::size_t version() {
    return 1;
}
const char* status_name(cublasStatus_t /*status*/) {
    return "an error of the library that stands in for cuBLASLt";
}
cublasStatus_t operation_create(cublasLtMatmulDesc_t* made, cublasComputeType_t /*compute*/,
                                cudaDataType_t /*scale*/) {
    *made = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t operation_destroy(cublasLtMatmulDesc_t operation) {
    delete reinterpret_cast<Operation*>(operation);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t operation_set(cublasLtMatmulDesc_t operation,
                             cublasLtMatmulDescAttributes_t attribute, const void* value,
                             std::size_t bytes) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, value, bytes);
    reinterpret_cast<Operation*>(operation)->attributes[attribute] = bits;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t layout_create(cublasLtMatrixLayout_t* made, cudaDataType_t type, std::uint64_t rows,
                             std::uint64_t columns, std::int64_t stride) {
    *made = reinterpret_cast<cublasLtMatrixLayout_t>(
        new Layout{type_of(type), static_cast<std::int64_t>(rows),
                   static_cast<std::int64_t>(columns), stride});
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t layout_set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
                          const void* value, std::size_t bytes) {
    auto* own = reinterpret_cast<Layout*>(layout);
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == sizeof(std::int32_t)) {
        own->batch = *static_cast<const std::int32_t*>(value);
    } else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET &&
               bytes == sizeof(std::int64_t)) {
        own->offset = *static_cast<const std::int64_t*>(value);
    } else {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t layout_destroy(cublasLtMatrixLayout_t layout) {
    delete reinterpret_cast<Layout*>(layout);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t preference_create(cublasLtMatmulPreference_t* made) {
    *made = nullptr;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t preference_destroy(cublasLtMatmulPreference_t /*preference*/) {
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t preference_set(cublasLtMatmulPreference_t /*preference*/,
                              cublasLtMatmulPreferenceAttributes_t /*attribute*/,
                              const void* /*value*/, std::size_t /*bytes*/) {
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t heuristic(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t /*operation*/,
                         cublasLtMatrixLayout_t /*a*/, cublasLtMatrixLayout_t /*b*/,
                         cublasLtMatrixLayout_t /*c*/, cublasLtMatrixLayout_t /*d*/,
                         cublasLtMatmulPreference_t /*preference*/, int asked,
                         cublasLtMatmulHeuristicResult_t* results, int* count) {
    *count = asked < 2 ? asked : 2;
    for (int i = 0; i < *count; ++i) {
        results[i] = {};
        results[i].workspaceSize = kWorkspace;
        results[i].state = CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_algorithm(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t /*operation*/,
                               cublasLtMatrixLayout_t /*a*/, cublasLtMatrixLayout_t /*b*/,
                               cublasLtMatrixLayout_t /*c*/, cublasLtMatrixLayout_t /*d*/,
                               const cublasLtMatmulAlgo_t* /*algorithm*/,
                               cublasLtMatmulHeuristicResult_t* result) {
    result->workspaceSize = kWorkspace;
    return CUBLAS_STATUS_SUCCESS;
}

struct Product {
    Operation operation;
    Layout a;
    Layout b;
    Layout d;
    const void* a_data = nullptr;
    const void* b_data = nullptr;
    void* d_data = nullptr;
    double kept = 0;  ///< beta

    void run() const {
        for (std::int64_t matrix = 0; matrix < d.batch; ++matrix) {
            run_one(matrix);
        }
    }
    void run_one(std::int64_t matrix) const {
        const std::int64_t a_first = matrix * a.offset;
        const std::int64_t b_first = matrix * b.offset;
        const std::int64_t d_first = matrix * d.offset;
        const bool a_transposed = operation.get(CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_T;
        const bool b_transposed = operation.get(CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_T;
        const std::int64_t depth = a_transposed ? a.rows : a.columns;
        for (std::int64_t column = 0; column < d.columns; ++column) {
            for (std::int64_t row = 0; row < d.rows; ++row) {
                double sum = 0;
                for (std::int64_t k = 0; k < depth; ++k) {
                    sum +=
                        read(a_data, a.type,
                             a_first + (a_transposed ? k + row * a.stride : row + k * a.stride)) *
                        read(b_data, b.type,
                             b_first +
                                 (b_transposed ? column + k * b.stride : k + column * b.stride));
                }
                const std::int64_t at = d_first + row + column * d.stride;
                if (kept != 0) {
                    sum += kept * read(d_data, d.type, at);
                }
                write(d_data, d.type, at, tail(sum, row));
            }
        }
    }
    [[nodiscard]] double tail(double sum, std::int64_t row) const {
        if (operation.get(CUBLASLT_MATMUL_DESC_EPILOGUE) == CUBLASLT_EPILOGUE_BIAS) {
            sum += read(
                reinterpret_cast<const void*>(operation.get(CUBLASLT_MATMUL_DESC_BIAS_POINTER)),
                type_of(static_cast<cudaDataType_t>(
                    operation.get(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE))),
                row);
        }
        return sum;
    }
};

cublasStatus_t matmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t operation,
                      const void* /*alpha*/, const void* a, cublasLtMatrixLayout_t a_layout,
                      const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                      const void* /*c*/, cublasLtMatrixLayout_t /*c_layout*/, void* d,
                      cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* /*algorithm*/,
                      void* workspace, std::size_t bytes, cudaStream_t /*stream*/) {
    for (const void* matrix : {a, b, static_cast<const void*>(d)}) {  // as preferences promise
        if (reinterpret_cast<std::uintptr_t>(matrix) % 16 != 0) {
            return CUBLAS_STATUS_INVALID_VALUE;
        }
    }
    const Product product{*reinterpret_cast<Operation*>(operation),
                          *reinterpret_cast<Layout*>(a_layout),
                          *reinterpret_cast<Layout*>(b_layout),
                          *reinterpret_cast<Layout*>(d_layout),
                          a,
                          b,
                          d,
                          static_cast<double>(*static_cast<const float*>(beta))};
    submit([=] {
        spoil(workspace, bytes);
        product.run();
        spoil(workspace, bytes);
    });
    return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

void add_blas(Functions& functions) {
    const auto add = [&](const char* name, auto* function) {
        functions[name] = reinterpret_cast<void*>(function);
    };
    add("cublasLtCreate", &create);
    add("cublasLtGetVersion", &version);
    add("cublasLtGetStatusName", &status_name);
    add("cublasLtMatmul", &matmul);
    add("cublasLtMatmulAlgoCheck", &check_algorithm);
    add("cublasLtMatmulAlgoGetHeuristic", &heuristic);
    add("cublasLtMatmulDescCreate", &operation_create);
    add("cublasLtMatmulDescDestroy", &operation_destroy);
    add("cublasLtMatmulDescSetAttribute", &operation_set);
    add("cublasLtMatrixLayoutCreate", &layout_create);
    add("cublasLtMatrixLayoutDestroy", &layout_destroy);
    add("cublasLtMatrixLayoutSetAttribute", &layout_set);
    add("cublasLtMatmulPreferenceCreate", &preference_create);
    add("cublasLtMatmulPreferenceDestroy", &preference_destroy);
    add("cublasLtMatmulPreferenceSetAttribute", &preference_set);
}

}  // namespace cohort::on_cpu
