#include "layers/cuda/dnn/product.hpp"

#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "cohort/core/error.hpp"
#include "layers/tuning.hpp"
#include "tensor/cuda.hpp"

namespace cohort::cuda {
namespace {

constexpr int kMostCandidates = 8;

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

}  // namespace

struct Product::Impl {
    Impl(const ProductShape& asked, const KernelContext& context)
        : shape(asked),
          device(context.device),
          stream(context.stream),
          native(static_cast<cudaStream_t>(native_stream(context.stream))),
          handle(blas_handle(context.device)),
          description(asked, context.precision, context.deterministic) {
        // Without the epilogue where no algorithm has it.
        if (!find_candidates() && shape.epilogue != Epilogue::kNone) {
            shape.epilogue = Epilogue::kNone;
            description.set_epilogue(Epilogue::kNone);
            static_cast<void>(find_candidates());
        }
        if (candidates.empty()) {
            fail<DeviceError>(
                {.where = "matrix product",
                 .what = "cuBLASLt has no algorithm for " + product_key(asked, context.precision)});
        }
        choose(context);
    }

    [[nodiscard]] bool find_candidates() {
        std::array<cublasLtMatmulHeuristicResult_t, kMostCandidates> found{};
        int count = 0;
        const cublasStatus_t status =
            blas().heuristic(handle, description.operation(), description.first(),
                             description.second(), description.result(), description.result(),
                             description.preference(), kMostCandidates, found.data(), &count);
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
            if (remembered < 0) {
                return;
            }
            context.tuning->remember(key, remembered);
        }
        if (static_cast<std::size_t>(remembered) < candidates.size()) {
            chosen = static_cast<std::size_t>(remembered);
        }
    }

    /// The fastest candidate; -1 when there is no memory to try them.
    [[nodiscard]] int measure() {
        try {
            const auto bytes = [](std::int64_t elements, ElementType type) {
                return static_cast<std::size_t>(elements) * element_bytes(type);
            };
            const Buffer a = zeros(bytes(shape.rows * shape.depth, shape.in));
            const Buffer b = zeros(bytes(shape.depth * shape.columns, shape.in));
            const Buffer d = zeros(bytes(shape.rows * shape.columns, shape.out));
            const Buffer bias = zeros(bytes(shape.columns, shape.out));
            const Buffer scratch = device.allocate(kMostProductScratch);
            if (shape.epilogue == Epilogue::kBias) {
                description.set_bias(bias.data());
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
            return -1;
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
        return blas().matmul(handle, description.operation(), &one, b, description.first(), a,
                             description.second(), &zero, d, description.result(), d,
                             description.result(), &algorithm.algo, scratch,
                             algorithm.workspaceSize, native);
    }

    ProductShape shape;
    Device& device;
    Stream& stream;
    cudaStream_t native;
    cublasLtHandle_t handle;
    ProductDescription description;
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
    if (impl_->shape.epilogue == Epilogue::kBias) {
        impl_->description.set_bias(bias);
    }
    check_blas(impl_->launch(impl_->chosen, a, b, d, scratch), "cublasLtMatmul");
}

}  // namespace cohort::cuda
