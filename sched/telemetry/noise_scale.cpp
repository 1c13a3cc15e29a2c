#include "cohort/sched/noise_scale.hpp"

#include <algorithm>
#include <cmath>

namespace cohort {
namespace {

constexpr int kFirstMeasurements = 5;  ///< measurements before phi counts as known

}  // namespace

void NoiseScale::add(std::span<const GradientNorm> gradients, double mean_squares) noexcept {
    double samples = 0;
    double squares = 0;
    for (const GradientNorm& one : gradients) {
        samples += one.samples;
        squares += one.samples * one.squares;
    }
    if (gradients.size() < 2 || !std::isfinite(squares) || !std::isfinite(mean_squares) ||
        squares <= 0) {
        return;
    }
    const double noise =
        (squares - samples * mean_squares) / static_cast<double>(gradients.size() - 1);
    const double signal = mean_squares - noise / samples;
    ++count_;
    const double rate = std::max(rate_, 1.0 / count_);
    noise_ += rate * (noise - noise_);
    signal_ += rate * (signal - signal_);
    measured_on_ += rate * (samples - measured_on_);
}

double NoiseScale::samples() const noexcept {
    if (count_ < kFirstMeasurements || noise_ <= 0) {
        return 0;
    }
    const double most = kMost * measured_on_;
    return noise_ < most * signal_ ? noise_ / signal_ : most;
}

}  // namespace cohort
