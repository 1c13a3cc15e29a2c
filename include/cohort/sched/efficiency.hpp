#pragma once

namespace cohort {

/// What the value of a plan's samples depends on: dimensionless, known before a plan is tried.
struct StalenessFeatures {
    double mean_square_lag = 0;  ///< of the plan's pushes, in reference batches (PlanTiming)
    double update_share = 1;     ///< mean samples of an update, reference batches
    double local_steps = 1;      ///< between two pushes
    double momentum = 0;
};

/// Estimates e_s: samples that ssgd needs at --lr / samples that a plan needs at the same rate for
/// the same progress, updates by the per-sample rule.
///
///     log e_s = (f (1 - M/B) - kappa E[L^2]) / i - d (H - 1) i,  i = 1 + ln 1 / (1 - momentum)
///
/// for updates of M <= B samples, pushes with lags of L reference batches and H local steps. 1 for
/// ssgd.
/// Many small updates, one after the other, are worth somewhat more than one update of as many
/// samples, and a small lag costs almost nothing. With momentum both matter less, and local steps
/// cost more. docs/efficiency.md shows what the constants are fitted to.
[[nodiscard]] double staleness_efficiency(const StalenessFeatures& features);

/// The constants of staleness_efficiency.
struct StalenessCosts {
    static constexpr double kFiner = 0.20;   ///< f
    static constexpr double kLag = 0.36;     ///< kappa
    static constexpr double kDrift = 0.028;  ///< d
};

/// Statistical efficiency of updates of M samples with the noise scale phi, relative to B:
/// (phi + B) / (phi + M) under adascale (Pollux), 1 under the per-sample rule.
[[nodiscard]] double batch_efficiency(double noise_scale, double reference_batch, double batch);

}  // namespace cohort
