// The sums of updates, bound by memory: each gradient is read once, the sum stays in the first
// level of the cache. This file is compiled without contraction into fused multiply-add.
#include "layers/optim/weighted_sum.hpp"

#include <algorithm>
#include <cstddef>

#include "cohort/core/error.hpp"
#include "core/system/simd.hpp"

namespace cohort {
namespace detail {

COHORT_SIMD_CLONES void scale(const float* __restrict a, float ca, float* __restrict to,
                              std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        to[i] = ca * a[i];
    }
}

COHORT_SIMD_CLONES void scale_two(const float* __restrict a, float ca, const float* __restrict b,
                                  float cb, float* __restrict to, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        to[i] = ca * a[i] + cb * b[i];
    }
}

COHORT_SIMD_CLONES void add(const float* __restrict a, float ca, float* __restrict to,
                            std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        to[i] = to[i] + ca * a[i];
    }
}

COHORT_SIMD_CLONES void add_two(const float* __restrict a, float ca, const float* __restrict b,
                                float cb, float* __restrict to, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        to[i] = (to[i] + ca * a[i]) + cb * b[i];
    }
}

/// Adds c (a + lambda a a (theta - released)).
COHORT_SIMD_CLONES void add_compensated(const float* __restrict a, float ca,
                                        const float* __restrict theta,
                                        const float* __restrict released, float lambda,
                                        float* __restrict to, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        const float g = a[i] + lambda * a[i] * a[i] * (theta[i] - released[i]);
        to[i] = to[i] + ca * g;
    }
}

}  // namespace detail

namespace {

void sum_block(std::span<const SumTerm> terms, std::int64_t at, float* to, std::int64_t n) {
    const auto values = [&](std::size_t t) { return terms[t].values + at; };
    std::size_t next = 2;
    if (terms.size() == 1) {
        detail::scale(values(0), terms[0].coefficient, to, n);
    } else {
        detail::scale_two(values(0), terms[0].coefficient, values(1), terms[1].coefficient, to, n);
    }
    for (; next + 1 < terms.size(); next += 2) {
        detail::add_two(values(next), terms[next].coefficient, values(next + 1),
                        terms[next + 1].coefficient, to, n);
    }
    if (next < terms.size()) {
        detail::add(values(next), terms[next].coefficient, to, n);
    }
}

}  // namespace

void weighted_sum(std::span<const SumTerm> terms, std::int64_t at, float* to, std::int64_t n) {
    constexpr std::int64_t kBlock = 4096;  // floats: the sum stays in the first-level cache
    check_invariant(!terms.empty(), "a sum has terms");
    for (std::int64_t done = 0; done < n; done += kBlock) {
        sum_block(terms, at + done, to + done, std::min(kBlock, n - done));
    }
}

void compensated_sum(std::span<const SumTerm> terms, const float* theta, float lambda,
                     std::int64_t at, float* to, std::int64_t n) {
    check_invariant(!terms.empty(), "a sum has terms");
    std::fill_n(to, n, 0.0F);
    for (const SumTerm& term : terms) {
        if (term.released == nullptr) {
            detail::add(term.values + at, term.coefficient, to, n);
        } else {
            detail::add_compensated(term.values + at, term.coefficient, theta + at,
                                    term.released + at, lambda, to, n);
        }
    }
}

}  // namespace cohort
