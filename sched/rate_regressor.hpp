#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace cohort {

/// What a plan's progress rate is predicted from: dimensionless, constant in number.
struct RateFeatures {
    static constexpr std::array<std::string_view, 19> kNames{
        "one",         "timed pace",    "staleness",      "spread",     "fastest",
        "quarter",     "middle",        "three quarters", "slowest",    "mean lag",
        "largest lag", "waited for",    "cohorts",        "balanced",   "parameters",
        "operations",  "learning rate", "progress",       "noise scale"};
    std::array<double, kNames.size()> values{};

    /// (max tau - mean tau) / mean tau, and log(tau / mean) at the quartiles. @param own_s > 0
    void set_times(std::vector<double> own_s);
    [[nodiscard]] double& operator[](std::size_t i) { return values[i]; }
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
    [[nodiscard]] std::span<const double> weights() const noexcept { return weights_; }

private:
    static constexpr std::size_t kTerms = RateFeatures::kNames.size();
    std::array<double, kTerms> weights_{};
    std::array<std::array<double, kTerms>, kTerms> covariance_{};
};

}  // namespace cohort
