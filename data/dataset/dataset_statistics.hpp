#pragma once

#include "cohort/data/sample_source.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cohort {

/// Mean and standard deviation per channel of a stream of samples, or per target, in double
/// precision: each block's mean and sum of squared deviations are merged into the total (Chan,
/// Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances",
/// 1979).
class ChannelStatistics {
public:
    ChannelStatistics(std::int64_t channels, std::int64_t elements_per_channel, SampleType type);
    /// Whole samples, row-major, finite.
    void add(std::span<const std::byte> samples);
    [[nodiscard]] std::vector<double> mean() const { return mean_; }
    /// Of the whole population. @param of_constant  that of a channel whose values are all equal
    [[nodiscard]] std::vector<double> standard_deviation(double of_constant = 1) const;

private:
    template <class Stored>
    void add_typed(std::span<const std::byte> samples);

    std::size_t channels_;
    std::size_t plane_;
    SampleType type_;
    double count_ = 0;             // values per channel so far
    std::vector<double> mean_;     // [channels]
    std::vector<double> squares_;  // [channels], squared deviations from mean_
};

}  // namespace cohort
