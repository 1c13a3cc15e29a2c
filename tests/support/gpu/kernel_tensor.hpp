#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include "core/tensor/cuda/elements.cuh"

// What the tests of kernels over channels share: tensors of any element type, and their numbers.
namespace cohort::cuda {

inline constexpr int kMultiprocessors = 2;  // few blocks, so that threads have several rows

/// Elements of one of the types.
class Tensor {
public:
    Tensor(ElementType type, std::int64_t count)
        : type_(type), bytes_(static_cast<std::size_t>(count) * element_bytes(type)) {}
    /// Element i is f(i), rounded to the type.
    Tensor(ElementType type, std::int64_t count, const std::function<double(std::int64_t)>& f)
        : Tensor(type, count) {
        for (std::int64_t i = 0; i < count; ++i) {
            with_type(type_, [&](auto zero) {
                using T = decltype(zero);
                reinterpret_cast<T*>(bytes_.data())[i] = from_float<T>(static_cast<float>(f(i)));
            });
        }
    }
    [[nodiscard]] double operator[](std::int64_t i) const {
        double value = 0;
        with_type(type_, [&](auto zero) {
            using T = decltype(zero);
            value = static_cast<double>(to_float(reinterpret_cast<const T*>(bytes_.data())[i]));
        });
        return value;
    }
    [[nodiscard]] void* data() { return bytes_.data(); }
    [[nodiscard]] float* floats() { return reinterpret_cast<float*>(bytes_.data()); }

private:
    ElementType type_;
    std::vector<std::byte> bytes_;
};

/// Numbers without a pattern in [-1, 1].
inline double noise(std::int64_t i) {
    const auto x = static_cast<double>(i);
    return std::sin(12.9898 * x + 1) * 0.9 + 0.1 * std::cos(7 * x);
}

/// Relative rounding error of a value that was stored in the type.
inline double rounding(ElementType type) {
    return type == ElementType::kF32 ? 2e-5 : type == ElementType::kF16 ? 1e-3 : 8e-3;
}

}  // namespace cohort::cuda
