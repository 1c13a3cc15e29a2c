#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "layers/cuda/dnn/product.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort::cuda {

/// The products of a linear layer on rows of features, by cuBLASLt, with a bias that no ReLU
/// follows in their epilogue where it has an algorithm for that.
class LinearProducts {
public:
    LinearProducts(const LinearSpec& spec, const KernelContext& context, std::int64_t inputs);

    void bind(const KernelBinding& binding);
    /// Makes those of so many rows. Errors: DeviceError.
    void prepare(std::int64_t rows);
    void forget(std::int64_t rows) { products_.erase(rows); }
    /// Bytes of scratch that calls with so many rows want.
    [[nodiscard]] std::size_t forward_scratch(std::int64_t rows) const;
    [[nodiscard]] std::size_t backward_scratch(std::int64_t rows) const;

    /// output = input weight^T + bias, then ReLU where the layer has one.
    void forward(std::int64_t rows, const void* input, void* output, void* scratch);

    struct Backward {
        std::int64_t rows = 0;
        const void* input = nullptr;
        const void* output_gradient = nullptr;  ///< before the ReLU
        void* input_gradient = nullptr;         ///< null: not wanted
        bool adds_weight = false;               ///< to the weight's gradient; else assigns it
        bool adds_bias = false;
    };
    /// Gradients of weight and bias in single precision, straight to the flat buffer.
    void backward(const Backward& call, void* scratch);

private:
    /// Of one number of rows.
    struct Products {
        std::unique_ptr<Product> forward;
        std::unique_ptr<Product> weight;  ///< null in inference
        std::unique_ptr<Product> input;   ///< null when no layer needs it
    };

    /// A ReLU is added by a kernel of our own (see Epilogue), and the bias along with it.
    [[nodiscard]] Epilogue wanted_epilogue() const {
        return spec_.options.bias && !spec_.relu ? Epilogue::kBias : Epilogue::kNone;
    }
    [[nodiscard]] Products make(std::int64_t rows) const;

    LinearSpec spec_;
    KernelContext context_;
    Support& support_;
    std::int64_t inputs_;
    std::int64_t outputs_;
    ElementType type_;
    KernelBinding binding_;
    int weight_ = 0;  ///< numbers of the copies
    int bias_ = 0;    ///< that of the epilogue
    std::map<std::int64_t, Products> products_;
};

}  // namespace cohort::cuda
