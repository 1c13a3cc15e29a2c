#include "cohort/sched/rate_regressor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

constexpr double kForget = 0.99;  ///< weight of earlier measurements when a new one is added
constexpr double kMostDoubt = 1;  ///< limit of a weight's variance

}  // namespace

void RateFeatures::set_times(std::vector<double> own_s) {
    std::ranges::sort(own_s);
    const double mean =
        std::accumulate(own_s.begin(), own_s.end(), 0.0) / static_cast<double>(own_s.size());
    values[kSpread] = (own_s.back() - mean) / mean;
    for (std::size_t quarter = 0; quarter <= 4; ++quarter) {
        const std::size_t at = quarter * (own_s.size() - 1) / 4;
        values[kFastest + quarter] = std::log(own_s[at] / mean);
    }
}

RateRegressor::RateRegressor(const Weights& weights) : weights_(weights) {
    for (std::size_t i = 0; i < kTerms; ++i) {
        covariance_[i][i] = kDoubt;
    }
}

RateRegressor::Weights RateRegressor::start_weights() noexcept {
    Weights weights{};
    weights[RateFeatures::kTimedPace] = 1;
    weights[RateFeatures::kSampleWorth] = 1;
    return weights;
}

RateRegressor::Weights RateRegressor::weights_of(const NamedWeights& named,
                                                 std::string_view where) {
    const auto& names = RateFeatures::kNames;
    Weights weights{};
    std::array<bool, kTerms> known{};
    for (std::size_t i = 0; i < named.terms.size(); ++i) {
        const auto found = std::ranges::find(names, named.terms[i]);
        if (found == names.end()) {
            fail<FileError>({.where = where,
                             .what = "a term that this program does not know",
                             .expected = fmt::format("{}", fmt::join(names, ", ")),
                             .got = named.terms[i]});
        }
        const auto term = static_cast<std::size_t>(found - names.begin());
        weights[term] = named.weights.at(i);
        known[term] = true;
    }
    const auto missing = std::ranges::find(known, false);
    if (missing != known.end()) {
        fail<FileError>({.where = where,
                         .what = "a term has no weight",
                         .expected = fmt::format("{}", fmt::join(names, ", ")),
                         .got = fmt::format(
                             "no {}", names[static_cast<std::size_t>(missing - known.begin())])});
    }
    return weights;
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
