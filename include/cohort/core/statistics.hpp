#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace cohort {

/// Middle value; the mean of the two middle ones for an even count. Errors: UsageError for none.
[[nodiscard]] double median(std::vector<double> values);
/// Middle value; the upper one of the two middle ones for an even count. @param values  not empty
[[nodiscard]] double upper_median(std::vector<double> values);
/// The value below which a share of all values lies, between two values by linear interpolation
/// (R. J. Hyndman, Y. Fan, Sample Quantiles in Statistical Packages, 1996, definition 7).
/// @param share  0..1: 0.5 gives the median  Errors: UsageError for no values.
[[nodiscard]] double quantile(std::vector<double> values, double share);

/// A number and an interval that holds it with 95 % confidence.
struct Interval {
    double value = 0;
    double low = 0;
    double high = 0;
};

/// Percentile bootstrap over clusters (B. Efron, R. J. Tibshirani, An Introduction to the
/// Bootstrap, 1993, chapters 8 and 13): whole clusters are drawn with replacement, as many as there
/// are, so values of a cluster stay together. The draws are always the same, so results repeat
/// exactly. The interval of a few clusters is too narrow: for normal values a nominal 95 % interval
/// holds the mean in 83 % of all cases with 5 clusters, 90 % with 10, 93 % with 25.
class ClusterBootstrap {
public:
    explicit ClusterBootstrap(std::size_t clusters);

    /// @param statistic  function of the drawn clusters (indices, some of them repeated); NaN: the
    /// draw does not count. With all clusters once it gives the value.
    [[nodiscard]] Interval operator()(
        const std::function<double(std::span<const std::uint32_t>)>& statistic) const;

private:
    static constexpr std::size_t kDraws =
        2000;  ///< fifty draws lie beyond each end of the interval
    std::vector<std::uint32_t> all_;
    std::vector<std::uint32_t> drawn_;  ///< [kDraws][clusters]
};

}  // namespace cohort
