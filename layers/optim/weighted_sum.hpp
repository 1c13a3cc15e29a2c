#pragma once

#include <cstdint>
#include <span>

namespace cohort {

/// One gradient of a weighted sum.
struct SumTerm {
    const float* values = nullptr;
    float coefficient = 0;
    const float* released = nullptr;  ///< parameters that it was computed on; null: unknown
};

/// to[i] = c0 v0[at + i] + c1 v1[at + i] + ..., 0 <= i < n, summed from left to right in single
/// precision, each product rounded before it is added: the same bits on every CPU, in every build
/// and for any cut of the range. @param terms at least one  @param to must not overlap the terms
void weighted_sum(std::span<const SumTerm> terms, std::int64_t at, float* to, std::int64_t n);

/// weighted_sum with each value g of a term whose `released` is known replaced by
/// g + lambda g g (theta[at + i] - released[at + i]), which estimates the gradient at theta
/// (DC-ASGD, Zheng et al. 2017, equation 5).
void compensated_sum(std::span<const SumTerm> terms, const float* theta, float lambda,
                     std::int64_t at, float* to, std::int64_t n);

}  // namespace cohort
