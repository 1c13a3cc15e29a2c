#include "optim/vector_math.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "cohort/core/error.hpp"
#include "core/system/simd.hpp"

namespace cohort {
namespace detail {

/// Largest exponent field among n floats, as bits.
COHORT_SIMD_CLONES std::uint32_t largest_exponent(const float* values, std::size_t n) {
    constexpr std::uint32_t kExponent = 0x7f800000U;
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
        largest = std::max(largest, std::bit_cast<std::uint32_t>(values[i]) & kExponent);
    }
    return largest;
}

/// Adds squares of n floats, a multiple of 16, to 16 running sums; element i to sum i mod 16.
COHORT_SIMD_CLONES void add_squares(const float* __restrict values, std::size_t n,
                                    double* __restrict sums) {
    double local[16];
    std::copy_n(sums, 16, local);
    for (std::size_t i = 0; i < n; i += 16) {
        for (std::size_t lane = 0; lane < 16; ++lane) {
            const double x = values[i + lane];
            local[lane] += x * x;
        }
    }
    std::copy_n(local, 16, sums);
}

/// As add_squares, for products of two vectors.
COHORT_SIMD_CLONES void add_products(const float* __restrict a, const float* __restrict b,
                                     std::size_t n, double* __restrict sums) {
    double local[16];
    std::copy_n(sums, 16, local);
    for (std::size_t i = 0; i < n; i += 16) {
        for (std::size_t lane = 0; lane < 16; ++lane) {
            local[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
        }
    }
    std::copy_n(local, 16, sums);
}

COHORT_SIMD_CLONES void scale_floats(float* to, const float* from, std::size_t n,
                                     float factor) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        to[i] = factor * from[i];
    }
}

COHORT_SIMD_CLONES void add_scaled_floats(float* __restrict to, const float* __restrict from,
                                          std::size_t n, float factor) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        to[i] += factor * from[i];
    }
}

COHORT_SIMD_CLONES void subtract_scaled(const float* theta, const float* u, float factor,
                                        float* out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        out[i] = theta[i] - factor * u[i];
    }
}

}  // namespace detail

bool is_finite(std::span<const float> values) noexcept {
    constexpr std::size_t kBlock = 16384;  // one look at the result per 64 KiB
    constexpr std::uint32_t kNotFinite = 0x7f800000U;
    for (std::size_t at = 0; at < values.size(); at += kBlock) {
        const std::size_t n = std::min(kBlock, values.size() - at);
        if (detail::largest_exponent(values.data() + at, n) == kNotFinite) {
            return false;
        }
    }
    return true;
}

double sum_of_squares(std::span<const float> values) noexcept {
    double sums[16] = {};
    const std::size_t even = values.size() / 16 * 16;
    detail::add_squares(values.data(), even, sums);
    for (std::size_t i = even; i < values.size(); ++i) {
        const double x = values[i];
        sums[i - even] += x * x;
    }
    double total = 0;
    for (const double sum : sums) {
        total += sum;
    }
    return total;
}

double dot(std::span<const float> a, std::span<const float> b) noexcept {
    double sums[16] = {};
    const std::size_t size = std::min(a.size(), b.size());
    const std::size_t even = size / 16 * 16;
    detail::add_products(a.data(), b.data(), even, sums);
    for (std::size_t i = even; i < size; ++i) {
        sums[i - even] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    return std::accumulate(sums, sums + 16, 0.0);
}

double norm(std::span<const float> values) noexcept {
    return std::sqrt(sum_of_squares(values));
}

void scale_into(std::span<float> to, std::span<const float> from, float factor) noexcept {
    detail::scale_floats(to.data(), from.data(), from.size(), factor);
}

void add_scaled(std::span<float> to, std::span<const float> from, float factor) noexcept {
    detail::add_scaled_floats(to.data(), from.data(), from.size(), factor);
}

double look_ahead_factor(double lr, double momentum, double lag) {
    if (momentum == 0 || lag == 0) {
        return 0;
    }
    const double left = 1 - momentum;
    return lr * momentum * -std::expm1(lag * std::log(momentum)) / (left * left);
}

void look_ahead(std::span<const float> theta, std::span<const float> u, double lr, double momentum,
                double lag, std::span<float> out) {
    if (theta.size() != u.size() || theta.size() != out.size()) {
        fail<ShapeError>({.where = "look_ahead",
                          .what = "buffers of different sizes",
                          .expected = fmt::format("{} floats each", theta.size()),
                          .got = fmt::format("velocity {}, result {}", u.size(), out.size())});
    }
    const double factor = look_ahead_factor(lr, momentum, lag);
    detail::subtract_scaled(theta.data(), u.data(), static_cast<float>(factor), out.data(),
                            theta.size());
}

}  // namespace cohort
