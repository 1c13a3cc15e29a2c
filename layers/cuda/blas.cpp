#include "blas.hpp"

#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/tensor/cuda.hpp"
#include "support.hpp"
#include "tuning.hpp"

namespace cohort::cuda {
namespace {

constexpr std::size_t kMostScratch = std::size_t{32} << 20;
constexpr int kMostCandidates = 8;
constexpr std::uint32_t kAlignment = 16;  // bytes that all matrices are aligned to

BlasTable load_table() {
    static const Library library("cuBLASLt",
                                 {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});
    BlasTable table;
    library.load(table.create, "cublasLtCreate");
    library.load(table.version, "cublasLtGetVersion");
    library.load(table.status_string, "cublasLtGetStatusString");
    library.load(table.matmul, "cublasLtMatmul");
    library.load(table.heuristic, "cublasLtMatmulAlgoGetHeuristic");
    library.load(table.operation_create, "cublasLtMatmulDescCreate");
    library.load(table.operation_destroy, "cublasLtMatmulDescDestroy");
    library.load(table.operation_set, "cublasLtMatmulDescSetAttribute");
    library.load(table.layout_create, "cublasLtMatrixLayoutCreate");
    library.load(table.layout_destroy, "cublasLtMatrixLayoutDestroy");
    library.load(table.preference_create, "cublasLtMatmulPreferenceCreate");
    library.load(table.preference_destroy, "cublasLtMatmulPreferenceDestroy");
    library.load(table.preference_set, "cublasLtMatmulPreferenceSetAttribute");
    return table;
}

/// One handle per GPU, for good: it may be shared by threads.
cublasLtHandle_t blas_handle(const Device& device) {
    static std::mutex mutex;
    static std::map<int, cublasLtHandle_t> handles;
    const std::lock_guard lock(mutex);
    use(device);
    cublasLtHandle_t& handle = handles[gpu_facts(device).index];
    if (handle == nullptr) {
        check_blas(blas().create(&handle), "cublasLtCreate");
    }
    return handle;
}

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

cublasLtEpilogue_t library_epilogue(Epilogue epilogue) {
    switch (epilogue) {
        case Epilogue::kBias: return CUBLASLT_EPILOGUE_BIAS;
        case Epilogue::kRelu: return CUBLASLT_EPILOGUE_RELU;
        case Epilogue::kBiasRelu: return CUBLASLT_EPILOGUE_RELU_BIAS;
        default: return CUBLASLT_EPILOGUE_DEFAULT;
    }
}

bool has_bias(Epilogue epilogue) {
    return epilogue == Epilogue::kBias || epilogue == Epilogue::kBiasRelu;
}

/// A descriptor of the library and the function that destroys it.
template <class T>
class Owned {
public:
    explicit Owned(cublasStatus_t (*destroy)(T)) : destroy_(destroy) {}
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    ~Owned() {
        if (value_ != nullptr) {
            static_cast<void>(destroy_(value_));
        }
    }
    [[nodiscard]] T* to_make() noexcept { return &value_; }
    [[nodiscard]] T get() const noexcept { return value_; }

private:
    T value_ = nullptr;
    cublasStatus_t (*destroy_)(T);
};
using Layout = Owned<cublasLtMatrixLayout_t>;

void make_layout(Layout& layout, const ColumnMajor& matrix, ElementType type) {
    check_blas(blas().layout_create(layout.to_make(), data_type(type),
                                    static_cast<std::uint64_t>(matrix.rows),
                                    static_cast<std::uint64_t>(matrix.columns), matrix.stride()),
               "cublasLtMatrixLayoutCreate");
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

void fill_preference(cublasLtMatmulPreference_t preference, bool deterministic) {
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        static_cast<std::uint64_t>(kMostScratch));
    // Sums that meet in the output come in an order of chance.
    const auto all = static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_MASK);
    const auto in_place = static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_INPLACE);
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        deterministic ? all & ~in_place : all);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
        set(preference, attribute, kAlignment);
    }
}

}  // namespace

const BlasTable& blas() {
    static const BlasTable table = load_table();
    return table;
}

void check_blas(cublasStatus_t status, const char* operation) {
    if (status != CUBLAS_STATUS_SUCCESS) {
        fail<DeviceError>(
            {.where = operation,
             .what = std::string("cuBLASLt reported ") + blas().status_string(status)});
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
    static constexpr std::array kEpilogues = {"", " bias", " relu", " bias+relu"};
    return std::string("product ") + std::string(to_text(precision)) + " " +
           std::string(to_text(shape.in)) + ">" + std::string(to_text(shape.out)) + " " +
           std::to_string(shape.rows) + "x" + std::to_string(shape.columns) + "x" +
           std::to_string(shape.depth) + (shape.transpose_a ? " T" : " N") +
           (shape.transpose_b ? "T" : "N") + kEpilogues[static_cast<std::size_t>(shape.epilogue)];
}

struct Product::Impl {
    Impl(const ProductShape& asked, const KernelContext& context)
        : shape(asked),
          device(context.device),
          stream(context.stream),
          native(static_cast<cudaStream_t>(native_stream(context.stream))),
          handle(blas_handle(context.device)),
          operation(blas().operation_destroy),
          first(blas().layout_destroy),
          second(blas().layout_destroy),
          result(blas().layout_destroy) {
        describe(context.precision);
        find_candidates(context.deterministic);
        choose(context);
    }

    void describe(Precision precision) {
        const ColumnMajorProduct product = column_major(shape);
        make_layout(first, product.first, shape.in);
        make_layout(second, product.second, shape.in);
        make_layout(result, product.result, shape.out);
        check_blas(
            blas().operation_create(operation.to_make(), compute_type(precision), CUDA_R_32F),
            "cublasLtMatmulDescCreate");
        const auto transposed = [](const ColumnMajor& m) {
            return static_cast<std::int32_t>(m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
        };
        set(operation.get(), CUBLASLT_MATMUL_DESC_TRANSA, transposed(product.first));
        set(operation.get(), CUBLASLT_MATMUL_DESC_TRANSB, transposed(product.second));
    }

    /// Without the epilogue where no algorithm has it.
    void find_candidates(bool deterministic) {
        Owned<cublasLtMatmulPreference_t> preference(blas().preference_destroy);
        check_blas(blas().preference_create(preference.to_make()),
                   "cublasLtMatmulPreferenceCreate");
        fill_preference(preference.get(), deterministic);
        if (!ask(preference.get()) && shape.epilogue != Epilogue::kNone) {
            shape.epilogue = Epilogue::kNone;
            static_cast<void>(ask(preference.get()));
        }
        if (candidates.empty()) {
            fail<DeviceError>(
                {.where = "matrix product",
                 .what = "cuBLASLt has no algorithm for " + product_key(shape, Precision::kF32)});
        }
    }

    [[nodiscard]] bool ask(cublasLtMatmulPreference_t preference) {
        set(operation.get(), CUBLASLT_MATMUL_DESC_EPILOGUE,
            static_cast<std::uint32_t>(library_epilogue(shape.epilogue)));
        if (has_bias(shape.epilogue)) {
            set(operation.get(), CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                static_cast<std::int32_t>(data_type(shape.out)));
            // Not read here: its value says how the bias will be aligned.
            set_bias(reinterpret_cast<const void*>(std::uintptr_t{kAlignment}));
        }
        std::array<cublasLtMatmulHeuristicResult_t, kMostCandidates> found{};
        int count = 0;
        const cublasStatus_t status =
            blas().heuristic(handle, operation.get(), first.get(), second.get(), result.get(),
                             result.get(), preference, kMostCandidates, found.data(), &count);
        if (status != CUBLAS_STATUS_NOT_SUPPORTED) {
            check_blas(status, "cublasLtMatmulAlgoGetHeuristic");
        }
        for (int i = 0; i < count; ++i) {
            if (found[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS) {
                candidates.push_back(found[static_cast<std::size_t>(i)]);
            }
        }
        return !candidates.empty();
    }

    void set_bias(const void* bias) {
        set(operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    }

    /// The first candidate, or what was fastest when it was measured.
    void choose(const KernelContext& context) {
        if (context.deterministic || context.tuning == nullptr || candidates.size() == 1) {
            return;
        }
        const std::string key = gpu_facts(device).name + " cublaslt " +
                                std::to_string(blas().version()) + " " +
                                product_key(shape, context.precision);
        int remembered = context.tuning->find(key);
        if (remembered < 0) {
            remembered = measure();
            context.tuning->remember(key, remembered);
        }
        if (static_cast<std::size_t>(remembered) < candidates.size()) {
            chosen = static_cast<std::size_t>(remembered);
        }
    }

    /// The fastest candidate; the first when there is no memory to try them.
    [[nodiscard]] int measure() {
        try {
            const auto bytes = [](std::int64_t elements, ElementType type) {
                return static_cast<std::size_t>(elements) * element_bytes(type);
            };
            const Buffer a = zeros(bytes(shape.rows * shape.depth, shape.in));
            const Buffer b = zeros(bytes(shape.depth * shape.columns, shape.in));
            const Buffer d = zeros(bytes(shape.rows * shape.columns, shape.out));
            const Buffer bias = zeros(bytes(shape.columns, shape.out));
            const Buffer scratch = device.allocate(kMostScratch);
            if (has_bias(shape.epilogue)) {
                set_bias(bias.data());
            }
            std::size_t best = 0;
            double least = 0;
            for (std::size_t i = 0; i < candidates.size(); ++i) {
                const double seconds = time(i, a.data(), b.data(), d.data(), scratch.data());
                if (seconds > 0 && (least == 0 || seconds < least)) {
                    least = seconds;
                    best = i;
                }
            }
            return static_cast<int>(best);
        } catch (const OutOfMemory&) {
            return 0;
        }
    }

    [[nodiscard]] Buffer zeros(std::size_t bytes) {
        Buffer buffer = device.allocate(bytes);
        stream.fill_zero(buffer.data(), bytes);
        return buffer;
    }

    /// Seconds of a few runs, the first not counted; 0 for a candidate that does not run.
    [[nodiscard]] double time(std::size_t candidate, const void* a, const void* b, void* d,
                              void* scratch) {
        constexpr int kRuns = 5;
        if (launch(candidate, a, b, d, scratch) != CUBLAS_STATUS_SUCCESS) {
            return 0;
        }
        const std::unique_ptr<Event> start = stream.record();
        for (int i = 0; i < kRuns; ++i) {
            check_blas(launch(candidate, a, b, d, scratch), "cublasLtMatmul");
        }
        const std::unique_ptr<Event> end = stream.record();
        end->wait();
        return end->seconds_since(*start);
    }

    [[nodiscard]] cublasStatus_t launch(std::size_t candidate, const void* a, const void* b,
                                        void* d, void* scratch) const {
        const float one = 1;
        const float zero = 0;
        const cublasLtMatmulHeuristicResult_t& algorithm = candidates[candidate];
        return blas().matmul(handle, operation.get(), &one, b, first.get(), a, second.get(), &zero,
                             d, result.get(), d, result.get(), &algorithm.algo, scratch,
                             algorithm.workspaceSize, native);
    }

    ProductShape shape;
    Device& device;
    Stream& stream;
    cudaStream_t native;
    cublasLtHandle_t handle;
    Owned<cublasLtMatmulDesc_t> operation;
    Layout first;
    Layout second;
    Layout result;
    std::vector<cublasLtMatmulHeuristicResult_t> candidates;
    std::size_t chosen = 0;
};

Product::Product(const ProductShape& shape, const KernelContext& context)
    : impl_(std::make_unique<Impl>(shape, context)) {
}
Product::~Product() = default;

std::size_t Product::scratch_bytes() const noexcept {
    return impl_->candidates[impl_->chosen].workspaceSize;
}

Epilogue Product::epilogue() const noexcept {
    return impl_->shape.epilogue;
}

void Product::run(const void* a, const void* b, void* d, const void* bias, void* scratch) {
    if (has_bias(impl_->shape.epilogue)) {
        impl_->set_bias(bias);
    }
    check_blas(impl_->launch(impl_->chosen, a, b, d, scratch), "cublasLtMatmul");
}

}  // namespace cohort::cuda
