#pragma once

#include <array>
#include <string>
#include <vector>

#include "cohort/sched/named_weights.hpp"

namespace cohort {

/// Inputs of the estimate of the cost of staleness: dimensionless, known before a plan is tried.
struct StalenessFeatures {
    double mean_lag = 0;  ///< of the plan, reference batches (PlanTiming)
    double max_lag = 0;
    double lr_scale = 1;  ///< SyncPlan::lr_scale
    double momentum = 0;
    bool look_ahead = false;
    double step_curvature = 0;  ///< --lr / (1 - momentum) x curvature along the step
                                ///< (GradientFacts::curvature); 0: not measured
    double noise_ratio = 0;     ///< phi / B; 0: not measured
    bool learns = false;        ///< a network is trained; without training no caution is needed
    double local_steps = 1;     ///< between two pushes

    [[nodiscard]] bool measured() const noexcept { return step_curvature > 0 && noise_ratio > 0; }
};

/// The scales of the learning rate that are considered for a plan.
inline constexpr std::array<double, 3> kLrScales{1, 0.5, 0.25};

struct ScaledEfficiency {
    double scale = 1;
    double efficiency = 1;
};

using EfficiencyCoefficients = NamedWeights;

/// Estimates e_s: samples that ssgd needs at --lr / samples that a plan needs for the same
/// progress. At most 1, 1 for ssgd (no lag, scale 1, one step), and never larger for a larger lag
/// at the same scale.
///
/// -log e_s is a weighted sum of terms of the features, with weights that `cohort efficiency train`
/// finds from sweeps. Terms and weights are not negative and no term falls with the lag. Without a
/// lag, at scale 1 and with one step all terms are 0. The cost of local steps is very uncertain, so
/// its mean effect counts. Where there are no weights, and where curvature or noise have not been
/// measured, a prior takes its place: scale^r / (1 + kappa (lag scale)^2), so that a small lag
/// costs almost nothing, times exp(-d log2(H) ln 1 / (1 - momentum)) for H local steps
/// (docs/efficiency.md).
class EfficiencyModel {
public:
    static constexpr double kLeast = 0.05;  ///< lower limit of the model's estimate
    static constexpr double kKappa = 0.1;
    static constexpr double kRateCost =
        0.3;  ///< half the rate: a fifth less, as ssgd in the sweeps
    static constexpr double kBlindLag = 0.25;     ///< reference batches at --lr
    static constexpr double kDriftCost = 0.0268;  ///< the prior's, log2(H) inertia
    static constexpr double kDriftError = 0.9;    ///< standard error of the model's, relative

    /// The prior alone.
    EfficiencyModel() = default;
    /// Errors: FileError for unknown terms, or a negative weight.
    explicit EfficiencyModel(const EfficiencyCoefficients& coefficients);

    [[nodiscard]] double efficiency(const StalenessFeatures& features) const;
    /// The scale of kLrScales with the largest e_s, whatever features.lr_scale; among equals the
    /// smallest. Without a lag: 1. Until curvature and noise of a trained network have been
    /// measured, its learning rate may be close to divergence: scales with lag x scale above
    /// kBlindLag are then excluded, except the smallest scale.
    [[nodiscard]] ScaledEfficiency best_scale(StalenessFeatures features) const;

    /// Names of all terms, and their values.
    [[nodiscard]] static const std::vector<std::string>& term_names();
    [[nodiscard]] static std::vector<double> terms_of(const StalenessFeatures& features);

private:
    std::vector<double> weights_;  ///< of all terms; empty: the prior alone
};

/// Statistical efficiency of updates of M samples with the noise scale phi, relative to B:
/// (phi + B) / (phi + M) under adascale (Pollux), 1 under the per-sample rule.
[[nodiscard]] double batch_efficiency(double noise_scale, double reference_batch, double batch);

}  // namespace cohort
