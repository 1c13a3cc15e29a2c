#include "layers/optim/mean_gradient.hpp"

#include <cmath>

#include "layers/optim/vector_math.hpp"

namespace cohort {

const float* MeanGradient::block(const float* theta, std::int64_t at, std::int64_t n,
                                 float* sum) const {
    if (delay_compensation_ > 0) {
        compensated_sum(terms_, theta, delay_compensation_, at, sum, n);
        return sum;
    }
    if (terms_.size() == 1 && terms_.front().coefficient == 1) {
        return terms_.front().values + at;
    }
    weighted_sum(terms_, at, sum, n);
    return sum;
}

std::vector<float> MeanGradient::statistics(std::int64_t at, std::int64_t n) const {
    if (n == 0 || !(weights_ > 0)) {
        return {};
    }
    std::vector<SumTerm> terms = terms_;
    for (SumTerm& term : terms) {
        // Weights that do not sum to one shrink a step, never a variance.
        term.coefficient = static_cast<float>(
            std::abs(weights_ - 1) < 1e-9 ? term.coefficient : term.coefficient / weights_);
    }
    std::vector<float> mean(static_cast<std::size_t>(n));
    weighted_sum(terms, at, mean.data(), n);
    return mean;
}

void ReferencePush::set(std::shared_ptr<const float> values, std::int64_t parameters) {
    values_ = std::move(values);
    parameters_ = static_cast<std::size_t>(parameters);
    squares_ = sum_of_squares({values_.get(), parameters_});
}

double ReferencePush::dot_with(const float* push) const {
    return dot({values_.get(), parameters_}, {push, parameters_});
}

}  // namespace cohort
