#include "rate_regressor.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cohort {
namespace {

constexpr double kForget = 0.99;  ///< weight of what was known when a measurement comes
constexpr double kDoubt = 0.02;   ///< variance of the first weights, in those of a measurement
constexpr double kMostDoubt = 1;  ///< of a weight: what is never seen to change stays unknown

}  // namespace

void RateFeatures::set_times(std::vector<double> own_s) {
    std::sort(own_s.begin(), own_s.end());
    const double mean =
        std::accumulate(own_s.begin(), own_s.end(), 0.0) / static_cast<double>(own_s.size());
    values[kSpread] = (own_s.back() - mean) / mean;
    for (std::size_t quarter = 0; quarter <= 4; ++quarter) {
        const std::size_t at = quarter * (own_s.size() - 1) / 4;
        values[kFastest + quarter] = std::log(own_s[at] / mean);
    }
}

RateRegressor::RateRegressor() {
    weights_[RateFeatures::kTimedPace] = 1;
    weights_[RateFeatures::kSampleWorth] = 1;
    for (std::size_t i = 0; i < kTerms; ++i) {
        covariance_[i][i] = kDoubt;
    }
}

double RateRegressor::predict(const RateFeatures& features) const {
    return std::inner_product(weights_.begin(), weights_.end(), features.values.begin(), 0.0);
}

void RateRegressor::learn(const RateFeatures& features, double log_rate) {
    const auto& x = features.values;
    std::array<double, kTerms> gain{};
    double scale = kForget;
    for (std::size_t i = 0; i < kTerms; ++i) {
        gain[i] = std::inner_product(x.begin(), x.end(), covariance_[i].begin(), 0.0);
        scale += gain[i] * x[i];
    }
    const double error = log_rate - predict(features);
    for (std::size_t i = 0; i < kTerms; ++i) {
        weights_[i] += gain[i] / scale * error;
        for (std::size_t j = 0; j < kTerms; ++j) {
            covariance_[i][j] = (covariance_[i][j] - gain[i] * gain[j] / scale) / kForget;
        }
    }
    for (std::size_t i = 0; i < kTerms; ++i) {
        if (covariance_[i][i] > kMostDoubt) {  // forgetting must not grow without bound
            const double shrink = std::sqrt(kMostDoubt / covariance_[i][i]);
            for (std::size_t j = 0; j < kTerms; ++j) {
                covariance_[i][j] *= shrink;
                covariance_[j][i] *= shrink;
            }
        }
    }
}

}  // namespace cohort
