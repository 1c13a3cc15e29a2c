#pragma once

#include <memory>

#include "layers/cuda/dnn/blas.hpp"

namespace cohort::cuda {

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
