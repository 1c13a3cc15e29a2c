#include "cohort/sched/noise_scale.hpp"

#include <algorithm>

namespace cohort {
namespace {

constexpr double kRate = 0.02;   ///< weight of the newest update
constexpr int kWarmUpdates = 5;  ///< single updates say next to nothing

}  // namespace

void NoiseScale::add(double squares, double inverse_batch, double sum_squares,
                     double samples) noexcept {
    constexpr double kLeastDifference = 1e-9;
    const double difference = inverse_batch - 1 / samples;
    if (difference < kLeastDifference) {
        return;
    }
    const double noise = (squares - sum_squares) / difference;
    const double signal = sum_squares - noise / samples;
    ++updates_;
    const double rate = std::max(kRate, 1.0 / updates_);  // a plain mean at first
    noise_ += rate * (noise - noise_);
    signal_ += rate * (signal - signal_);
}

double NoiseScale::samples() const noexcept {
    const bool known = updates_ >= kWarmUpdates && noise_ > 0 && signal_ > 0;
    return known ? noise_ / signal_ : 0;
}

}  // namespace cohort
