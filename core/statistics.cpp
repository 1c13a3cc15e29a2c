#include "cohort/core/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"

namespace cohort {

double median(std::vector<double> values) {
    if (values.empty()) {
        fail<UsageError>({.where = "median", .what = "no values"});
    }
    std::ranges::sort(values);
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double upper_median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

double quantile(std::vector<double> values, double share) {
    if (values.empty()) {
        fail<UsageError>({.where = "quantile", .what = "no values"});
    }
    std::ranges::sort(values);
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    const double part = place - static_cast<double>(below);
    return values[below] + part * (values[above] - values[below]);
}

ClusterBootstrap::ClusterBootstrap(std::size_t clusters) : all_(clusters) {
    std::iota(all_.begin(), all_.end(), 0U);
    Rng rng(1, RngPurpose::kBootstrap);
    drawn_.resize(clusters > 0 ? kDraws * clusters : 0);
    std::ranges::generate(drawn_,
                          [&] { return rng.next_below(static_cast<std::uint32_t>(clusters)); });
}

Interval ClusterBootstrap::operator()(
    const std::function<double(std::span<const std::uint32_t>)>& statistic) const {
    constexpr double kTail = 0.025;
    std::vector<double> values;
    for (std::size_t begin = 0; begin < drawn_.size(); begin += all_.size()) {
        const double value = statistic(std::span(drawn_).subspan(begin, all_.size()));
        if (!std::isnan(value)) {
            values.push_back(value);
        }
    }
    Interval interval{.value = statistic(all_)};
    interval.low = interval.high = interval.value;
    if (!values.empty()) {
        std::ranges::sort(values);
        const auto beyond = static_cast<std::size_t>(kTail * static_cast<double>(values.size()));
        interval.low = values[beyond];
        interval.high = values[values.size() - 1 - beyond];
    }
    return interval;
}

}  // namespace cohort
