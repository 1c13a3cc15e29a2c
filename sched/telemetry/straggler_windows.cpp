#include "sched/telemetry/straggler_windows.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cohort {
namespace {

/// Noise until it has been measured.
constexpr double kFirstSigma = 0.05;
constexpr double kFirstWindowWeight = 16;
/// Number of steps that the mean remembers.
constexpr double kMemory = 512;
/// Largest size with which a step counts: a change of speed is no noise.
constexpr double kLargestStep = 0.25;
/// Mean size of the difference of two normal numbers of deviation 1.
const double kMeanDifference = 2 / std::sqrt(std::numbers::pi);
/// Distance of thresholds from the usual mean, in deviations of a mean.
constexpr double kSure = 6.8;
constexpr double kSureOfEnd = 2;
constexpr int kStepsBetween = 32;

}  // namespace

StragglerWindows::StragglerWindows()
    : steps_(kFirstWindowWeight), mean_step_(kFirstSigma * kMeanDifference) {
    set_thresholds();
}

void StragglerWindows::add_step(double step) {
    steps_ = std::min(steps_ + 1, kMemory);
    mean_step_ += (std::min(std::abs(step), kLargestStep) - mean_step_) / steps_;
    if (--until_next_ <= 0) {
        set_thresholds();
    }
}

double StragglerWindows::sigma() const noexcept {
    return mean_step_ / kMeanDifference;
}

void StragglerWindows::set_thresholds() {
    until_next_ = kStepsBetween;
    const double slow = std::log(kBegins);
    active_ = 0;
    for (std::size_t i = 0; i < kLengths.size(); ++i) {
        const double deviation = sigma() / std::sqrt(static_cast<double>(kLengths[i]));
        const bool enough = kSure * deviation <= slow;
        const bool last = enough || i + 1 == kLengths.size();
        begins_[i] = std::max(slow, kSure * deviation);
        ends_[i] = std::log(kEnds) - (last ? 0 : kSureOfEnd * deviation);
        if (last) {
            active_ = i + 1;
            break;
        }
    }
}

double StragglerWindows::least_below(std::size_t window, std::size_t count) const {
    if (count < 2) {
        return 0;
    }
    // Extreme value theory's expected least of `count` standard normal numbers.
    const double root = std::sqrt(2 * std::log(static_cast<double>(count)));
    const double expected =
        root - (2 * std::log(root) + std::log(2 * std::numbers::pi)) / (2 * root);
    return std::max(expected, 0.0) * sigma() / std::sqrt(static_cast<double>(kLengths.at(window)));
}

double StragglerWindows::most(std::size_t window) const {
    constexpr double kBelowTwo = 1.9;
    return kBelowTwo * begins(window);
}

double StragglerWindows::level(std::size_t window, std::span<const double> logs) const {
    const auto newest = logs.first(kLengths.at(window));
    const double least = *std::ranges::max_element(newest) - most(window);
    double sum = 0;
    for (const double one : newest) {
        sum += std::max(one, least);
    }
    return sum / static_cast<double>(newest.size());
}

double StragglerWindows::excess(std::size_t window, std::span<const double> logs,
                                double least) const {
    const auto newest = logs.first(kLengths.at(window));
    double sum = 0;
    for (const double one : newest) {
        sum += std::min(one - least, most(window));
    }
    return sum / static_cast<double>(newest.size());
}

}  // namespace cohort
