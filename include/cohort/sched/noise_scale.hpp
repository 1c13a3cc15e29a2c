#pragma once

namespace cohort {

/// Estimates the noise scale of the gradient, phi = tr(Sigma) / |G|^2 in samples (McCandlish et al.
/// 2018, appendix A): the mean gradient g of b samples has E|g|^2 = |G|^2 + tr(Sigma) / b, so two
/// batch sizes give both terms. Each is averaged exponentially over updates, then divided: the
/// ratio of means, not the mean of ratios, is what noise does not bias. Pure.
class NoiseScale {
public:
    /// One update: @param squares  mean of |g_p|^2 over its pushes  @param inverse_batch  mean of
    /// 1/b_p  @param sum_squares  |gbar|^2 of their mean over samples  @param samples  sum of b_p.
    /// Ignored when both batch sizes are the same.
    void add(double squares, double inverse_batch, double sum_squares, double samples) noexcept;
    /// phi; 0: not known yet.
    [[nodiscard]] double samples() const noexcept;

private:
    double noise_ = 0;   ///< mean of tr(Sigma)
    double signal_ = 0;  ///< mean of |G|^2
    int updates_ = 0;
};

}  // namespace cohort
