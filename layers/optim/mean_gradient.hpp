#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "layers/optim/weighted_sum.hpp"

namespace cohort {

/// The mean gradient (or delta) of an update, worked out block by block from the pushes that it
/// sums. What parameter servers and virtual jobs share; calls for different blocks may run at the
/// same time.
class MeanGradient {
public:
    /// @param terms  pushes: parameters' gradients, then batch statistics  @param weights  the sum
    /// of their weights, in double precision  @param delay_compensation  0: none
    MeanGradient(std::vector<SumTerm> terms, double weights, double delay_compensation)
        : terms_(std::move(terms)),
          weights_(weights),
          delay_compensation_(static_cast<float>(delay_compensation)) {}

    [[nodiscard]] bool empty() const noexcept { return terms_.empty(); }
    /// n floats from `at` on: in `sum`, unless the only push is the mean as it is.
    /// @param theta  all parameters before the update
    [[nodiscard]] const float* block(const float* theta, std::int64_t at, std::int64_t n,
                                     float* sum) const;
    /// Mean of the pushes' batch statistics with the weights of their gradients: n floats that
    /// begin at `at` in every push. Empty when none count.
    [[nodiscard]] std::vector<float> statistics(std::int64_t at, std::int64_t n) const;

private:
    std::vector<SumTerm> terms_;
    double weights_;
    float delay_compensation_;
};

/// A push that later ones are compared with.
class ReferencePush {
public:
    /// Replaces the one before. @param values  a gradient of `parameters` floats, and what follows
    void set(std::shared_ptr<const float> values, std::int64_t parameters);
    [[nodiscard]] bool known() const noexcept { return values_ != nullptr; }
    /// Sum of the squares of its gradient.
    [[nodiscard]] double squares() const noexcept { return squares_; }
    /// Product of its gradient with that of a push.
    [[nodiscard]] double dot_with(const float* push) const;

private:
    std::shared_ptr<const float> values_;
    std::size_t parameters_ = 0;
    double squares_ = 0;
};

}  // namespace cohort
