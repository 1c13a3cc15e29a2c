#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace cohort {

/// What a plan's progress rate is predicted from: dimensionless, constant in number.
struct RateFeatures {
    enum Term : std::size_t {
        kOne,
        kTimedPace,    ///< logarithm, as all that is a ratio
        kSampleWorth,  ///< the same: of batches and staleness
        kSpread,
        kFastest,  ///< of five quartiles, to the slowest
        kSlowest = kFastest + 4,
        kMeanLag,
        kMostLag,
        kWaitedFor,
        kCohorts,
        kBalanced,
        kParameters,
        kOperations,
        kLearningRate,
        kProgress,
        kNoiseScale,
        kTerms
    };
    std::array<double, kTerms> values{};

    /// (max tau - mean tau) / mean tau, and log(tau / mean) at the quartiles. @param own_s > 0
    void set_times(std::vector<double> own_s);
    [[nodiscard]] double& operator[](Term term) { return values[term]; }
    [[nodiscard]] double operator[](Term term) const { return values[term]; }
};

/// Linear regression of the logarithm of progress rates, made better with every measurement:
/// recursive least squares with forgetting, which is ridge regression towards the weights that it
/// begins with (those that take the timing model and the cost of staleness as they are). Pure.
class RateRegressor {
public:
    RateRegressor();

    /// log of the rate.
    [[nodiscard]] double predict(const RateFeatures& features) const;
    /// A rate was measured. Costs the square of the number of features.
    void learn(const RateFeatures& features, double log_rate);

private:
    static constexpr std::size_t kTerms = RateFeatures::kTerms;
    std::array<double, kTerms> weights_{};
    std::array<std::array<double, kTerms>, kTerms> covariance_{};
};

}  // namespace cohort
