#pragma once

#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "cohort/core/error.hpp"
#include "core/tensor/cuda.hpp"
#include "layers/cuda/dnn/blas.hpp"
#include "layers/cuda/dnn/choices.hpp"
#include "layers/cuda/dnn/trials.hpp"
#include "layers/cuda/support.hpp"
#include "layers/tuning.hpp"

namespace cohort::cuda {

/// One handle per GPU, for good: it may be shared by threads.
inline cublasLtHandle_t blas_handle(const Device& device) {
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

/// A product with its algorithm. Making one may measure: it queues work and waits for it.
class Product {
public:
    /// Errors: DeviceError when the library has no algorithm for it.
    Product(const ProductShape& asked, const KernelContext& context)
        : shape_(asked),
          device_(context.device),
          stream_(context.stream),
          native_(static_cast<cudaStream_t>(native_stream(context.stream))),
          handle_(blas_handle(context.device)),
          description_(asked, context.precision, context.deterministic) {
        // Without the epilogue where no algorithm has it.
        if (!find_candidates() && shape_.epilogue != Epilogue::kNone) {
            shape_.epilogue = Epilogue::kNone;
            description_.set_epilogue(Epilogue::kNone);
            static_cast<void>(find_candidates());
        }
        if (candidates_.empty()) {
            fail<DeviceError>(
                {.where = "matrix product",
                 .what = "cuBLASLt has no algorithm for " + product_key(asked, context.precision)});
        }
        choose(context);
    }

    /// Device memory that run() wants.
    [[nodiscard]] std::size_t scratch_bytes() const noexcept {
        return candidates_[chosen_].workspaceSize;
    }
    /// The shape's epilogue, or kNone where no algorithm has it: the caller's work then.
    [[nodiscard]] Epilogue epilogue() const noexcept { return shape_.epilogue; }
    /// Queues the product; can be recorded. @param bias  null where the epilogue has none
    /// @param scratch  aligned to 256 bytes; matrices and bias to 16
    void run(const void* a, const void* b, void* d, const void* bias, void* scratch) {
        if (shape_.epilogue == Epilogue::kBias) {
            description_.set_bias(bias);
        }
        check_blas(launch(chosen_, a, b, d, scratch), "cublasLtMatmul");
    }
    /// d += the product; of one without an epilogue.
    void add(const void* a, const void* b, void* d, void* scratch) {
        check_blas(launch(chosen_, a, b, d, scratch, 1), "cublasLtMatmul");
    }

private:
    static constexpr int kMostCandidates = 8;

    [[nodiscard]] bool find_candidates() {
        std::array<cublasLtMatmulHeuristicResult_t, kMostCandidates> found{};
        int count = 0;
        const cublasStatus_t status =
            blas().heuristic(handle_, description_.operation(), description_.first(),
                             description_.second(), description_.result(), description_.result(),
                             description_.preference(), kMostCandidates, found.data(), &count);
        if (status != CUBLAS_STATUS_NOT_SUPPORTED) {
            check_blas(status, "cublasLtMatmulAlgoGetHeuristic");
        }
        for (int i = 0; i < count; ++i) {
            if (found[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS) {
                candidates_.push_back(found[static_cast<std::size_t>(i)]);
            }
        }
        return !candidates_.empty();
    }

    /// The first candidate, or in this order: what the tuning cache remembers, what was fastest for
    /// a batch of nearly this size, what is fastest when it is measured.
    void choose(const KernelContext& context) {
        if (context.deterministic || context.tuning == nullptr || candidates_.size() == 1) {
            return;
        }
        ProductChoices& choices = support_of(context).choices().products;
        const std::string key = gpu_facts(device_).name + " cublaslt " +
                                std::to_string(blas().version()) + " " +
                                product_key(shape_, context.precision);
        int remembered = known(*context.tuning, key);
        if (remembered < 0 && take(choices.nearest(shape_))) {
            return;
        }
        if (remembered < 0) {
            remembered = measure_once(*context.tuning, key);
        }
        if (remembered >= 0) {
            chosen_ = static_cast<std::size_t>(remembered);
            choices.add(shape_, candidates_[chosen_].algo);
        }
    }

    /// Chooses that algorithm; false: there is none, or it is none for this shape.
    [[nodiscard]] bool take(const cublasLtMatmulAlgo_t* algorithm) {
        cublasLtMatmulHeuristicResult_t result{};
        if (algorithm == nullptr ||
            blas().check_algorithm(handle_, description_.operation(), description_.first(),
                                   description_.second(), description_.result(),
                                   description_.result(), algorithm,
                                   &result) != CUBLAS_STATUS_SUCCESS ||
            result.workspaceSize > kMostProductScratch) {
            return false;
        }
        result.algo = *algorithm;
        candidates_.push_back(result);
        chosen_ = candidates_.size() - 1;
        return true;
    }

    /// The candidate that the cache remembers; -1: none of those that there are.
    [[nodiscard]] int known(const TuningCache& tuning, const std::string& key) const {
        const int remembered = tuning.find(key);
        return remembered < static_cast<int>(candidates_.size()) ? remembered : -1;
    }

    /// The fastest candidate, remembered. Of the processes that share the file of choices one
    /// measures, the others find its choice there. -1 as for measure().
    [[nodiscard]] int measure_once(TuningCache& tuning, const std::string& key) {
        const MeasuringTurn turn(tuning, key);
        int fastest = known(tuning, key);
        if (fastest < 0) {
            fastest = measure();
            if (fastest >= 0) {
                tuning.remember(key, fastest);
            }
        }
        return fastest;
    }

    /// The fastest candidate; -1 when there is no memory to try them, or none that runs.
    [[nodiscard]] int measure() {
        try {
            const auto bytes = [this](std::int64_t elements, ElementType type) {
                return static_cast<std::size_t>(shape_.batch * elements) * element_bytes(type);
            };
            const Buffer a = random(shape_.in, bytes(shape_.rows * shape_.depth, shape_.in));
            const Buffer b = random(shape_.in, bytes(shape_.depth * shape_.columns, shape_.in));
            const Buffer d = random(shape_.out, bytes(shape_.rows * shape_.columns, shape_.out));
            const Buffer bias = random(shape_.out, bytes(shape_.columns, shape_.out));
            const Buffer scratch = device_.allocate(kMostProductScratch);
            if (shape_.epilogue == Epilogue::kBias) {
                description_.set_bias(bias.data());
            }
            std::vector<TimedWork> work;
            for (std::size_t i = 0; i < candidates_.size(); ++i) {
                work.emplace_back(stream_, [&, i] {
                    check_blas(launch(i, a.data(), b.data(), d.data(), scratch.data()),
                               "cublasLtMatmul");
                });
            }
            return index_of_least(
                seconds_in_turn(work.size(), warm_up_of(gpu_facts(device_).index),
                                [&](std::size_t i) { return seconds_or_infinite(work[i]); }));
        } catch (const OutOfMemory&) {
            return -1;
        }
    }

    [[nodiscard]] Buffer random(ElementType type, std::size_t bytes) {
        Buffer buffer = device_.allocate(bytes);
        fill_random(stream_, type, buffer.data(), bytes);
        return buffer;
    }

    [[nodiscard]] cublasStatus_t launch(std::size_t candidate, const void* a, const void* b,
                                        void* d, void* scratch, float kept = 0) const {
        const float one = 1;
        const cublasLtMatmulHeuristicResult_t& algorithm = candidates_[candidate];
        return blas().matmul(handle_, description_.operation(), &one, b, description_.first(), a,
                             description_.second(), &kept, d, description_.result(), d,
                             description_.result(), &algorithm.algo, scratch,
                             algorithm.workspaceSize, native_);
    }

    ProductShape shape_;
    Device& device_;
    Stream& stream_;
    cudaStream_t native_;
    cublasLtHandle_t handle_;
    ProductDescription description_;
    std::vector<cublasLtMatmulHeuristicResult_t> candidates_;
    std::size_t chosen_ = 0;
};

}  // namespace cohort::cuda
