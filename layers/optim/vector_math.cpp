#include "layers/optim/vector_math.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "core/system/simd.hpp"

namespace cohort {
namespace {

/// Sum of products of n floats in 16 running sums, element i in sum i mod 16, added up at the end.
[[gnu::always_inline]] inline double sum_of_products(const float* a, const float* b,
                                                     std::size_t n) {
    constexpr std::size_t kLanes = 16;
    double sums[kLanes] = {};
    const std::size_t even = n / kLanes * kLanes;
    for (std::size_t i = 0; i < even; i += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            sums[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
        }
    }
    for (std::size_t i = even; i < n; ++i) {
        sums[i - even] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    return std::accumulate(sums, sums + kLanes, 0.0);
}

}  // namespace

COHORT_SIMD_CLONES double sum_of_squares(std::span<const float> values) noexcept {
    return sum_of_products(values.data(), values.data(), values.size());
}

COHORT_SIMD_CLONES double dot(std::span<const float> a, std::span<const float> b) noexcept {
    return sum_of_products(a.data(), b.data(), std::min(a.size(), b.size()));
}

double norm(std::span<const float> values) noexcept {
    return std::sqrt(sum_of_squares(values));
}

COHORT_SIMD_CLONES void scale_into(std::span<float> to, std::span<const float> from,
                                   float factor) noexcept {
    float* target = to.data();
    const float* source = from.data();
    const std::size_t n = from.size();
    for (std::size_t i = 0; i < n; ++i) {
        target[i] = factor * source[i];
    }
}

COHORT_SIMD_CLONES void add_scaled(std::span<float> to, std::span<const float> from,
                                   float factor) noexcept {
    float* __restrict target = to.data();
    const float* __restrict source = from.data();
    const std::size_t n = from.size();
    for (std::size_t i = 0; i < n; ++i) {
        target[i] += factor * source[i];
    }
}

}  // namespace cohort
