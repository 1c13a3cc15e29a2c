#pragma once

#include <span>

namespace cohort {

/// Norm of the mean gradient of some samples.
struct GradientNorm {
    double squares = 0;  ///< |g|^2, before weights, decay and clipping
    double samples = 0;  ///< b
};

/// Estimates the noise scale of the gradient, phi = tr(Sigma) / |G|^2 in samples (McCandlish et al.
/// 2018, appendix A), from the gradients of several mini-batches on the same parameters: with
/// S = sum of b and gbar = sum of b g / S,
///   tr(Sigma) = (sum of b |g|^2 - S |gbar|^2) / (n - 1),   |G|^2 = |gbar|^2 - tr(Sigma) / S.
/// Both are unbiased for any sizes of the mini-batches. They are averaged exponentially, each by
/// itself, and divided last: noise biases the mean of ratios, but not the ratio of means. Pure.
class NoiseScale {
public:
    /// @param rate  weight of the newest measurement once there are many; a plain mean at first
    explicit NoiseScale(double rate = 0.02) : rate_(rate) {}

    /// @param gradients  two or more, of equal parameters; fewer are ignored, and so are numbers
    /// that are not finite, or all zero  @param mean_squares  |gbar|^2
    void add(std::span<const GradientNorm> gradients, double mean_squares) noexcept;

    /// phi; 0: not known yet. When the signal does not rise above the noise, phi is only known to
    /// be large: the result is then kMost times the samples of a measurement.
    [[nodiscard]] double samples() const noexcept;
    /// Means of tr(Sigma) and |G|^2. The latter may be negative.
    [[nodiscard]] double noise() const noexcept { return noise_; }
    [[nodiscard]] double signal() const noexcept { return signal_; }
    /// Measurements so far.
    [[nodiscard]] int count() const noexcept { return count_; }

    static constexpr double kMost = 100;

private:
    double rate_;
    double noise_ = 0;
    double signal_ = 0;
    double measured_on_ = 0;  ///< mean of S
    int count_ = 0;
};

}  // namespace cohort
