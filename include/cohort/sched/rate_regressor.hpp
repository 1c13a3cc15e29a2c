#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/sched/named_weights.hpp"

namespace cohort {

/// Inputs of the prediction of a plan's progress rate: dimensionless, constant in number.
struct RateFeatures {
    enum Term : std::size_t {
        kOne,
        kTimedPace,    ///< logarithm, as for all ratios
        kSampleWorth,  ///< logarithm of batch efficiency x staleness efficiency
        kSpread,
        kFastest,  ///< first of five quartiles, the last is the slowest worker
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
    /// In the order of Term, as files have them.
    static constexpr std::array<std::string_view, kTerms> kNames{
        "one",        "timed_pace",    "sample_worth", "spread",     "quartile_0",
        "quartile_1", "quartile_2",    "quartile_3",   "quartile_4", "mean_lag",
        "most_lag",   "waited_for",    "cohorts",      "balanced",   "parameters",
        "operations", "learning_rate", "progress",     "noise_scale"};
};

/// The rate that a plan in force achieved over some reference batches.
struct RateWindow {
    double seconds = 0;        ///< of training, at its end
    std::int64_t samples = 0;  ///< applied then
    std::string plan;          ///< as `--mode` writes it
    RateFeatures features;
    double log_rate =
        0;  ///< logarithm of the progress rate, relative to all workers at the speed of the fastest
};

/// Linear regression of the logarithm of progress rates, updated with every measurement: recursive
/// least squares with forgetting, which is ridge regression towards the initial weights. Pure.
class RateRegressor {
public:
    using Weights = std::array<double, RateFeatures::kTerms>;
    /// Variance of the initial weights, in units of the variance of a measurement.
    static constexpr double kDoubt = 0.02;

    /// Begins with start_weights().
    RateRegressor() : RateRegressor(start_weights()) {}
    explicit RateRegressor(const Weights& weights);

    /// log of the rate.
    [[nodiscard]] double predict(const RateFeatures& features) const;
    /// A rate was measured. Costs the square of the number of features.
    void learn(const RateFeatures& features, double log_rate);

    /// Weights with which the rate is the timing model times the cost of staleness, uncorrected.
    [[nodiscard]] static Weights start_weights() noexcept;
    /// @param where  for messages. Errors: FileError for missing or unknown terms.
    [[nodiscard]] static Weights weights_of(const NamedWeights& named,
                                            std::string_view where = "rate regressor");

private:
    static constexpr std::size_t kTerms = RateFeatures::kTerms;
    Weights weights_;
    std::array<std::array<double, kTerms>, kTerms> covariance_{};
};

}  // namespace cohort
