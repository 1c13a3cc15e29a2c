#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/sched/named_weights.hpp"

namespace cohort {

/// What the cost of staleness is estimated from: dimensionless, known before a plan is tried.
struct StalenessFeatures {
    double mean_lag = 0;  ///< of the plan, reference batches (PlanTiming)
    double max_lag = 0;
    double lr_scale = 1;  ///< SyncPlan::lr_scale
    double momentum = 0;
    bool look_ahead = false;
    double step_curvature = 0;  ///< --lr / (1 - momentum) x curvature along the step
                                ///< (GradientFacts::curvature); 0: not measured
    double noise_ratio = 0;     ///< phi / B; 0: not measured
    bool learns = false;        ///< a network does: times alone are no reason to be careful

    [[nodiscard]] bool measured() const noexcept { return step_curvature > 0 && noise_ratio > 0; }
};

/// The scales of the learning rate that a plan is tried with.
inline constexpr std::array<double, 3> kLrScales{1, 0.5, 0.25};

struct ScaledEfficiency {
    double scale = 1;
    double efficiency = 1;
};

/// e_s: samples that ssgd needs at --lr / samples that a plan needs for the same progress. At most
/// 1, 1 for ssgd (no lag, scale 1), and never larger for a larger lag at the same scale.
class StalenessCost {
public:
    StalenessCost() = default;
    StalenessCost(const StalenessCost&) = delete;
    StalenessCost& operator=(const StalenessCost&) = delete;
    virtual ~StalenessCost() = default;
    [[nodiscard]] virtual double efficiency(const StalenessFeatures& features) const = 0;
    [[nodiscard]] virtual std::string_view name() const = 0;
    /// Of kLrScales the one with the largest e_s, whatever features.lr_scale; the smallest of
    /// equals. Without a lag: 1. While nothing has been measured of a network that learns, nobody
    /// knows how near its rate is to the edge: scales that move the parameters by more than
    /// kBlindLag meanwhile are out, but for the least one.
    [[nodiscard]] ScaledEfficiency best_scale(StalenessFeatures features) const;
    static constexpr double kBlindLag = 0.25;  ///< reference batches at --lr
};

/// scale^r / (1 + kappa (lag scale)^2): a small lag costs next to nothing (docs/efficiency.md).
class StalenessPrior final : public StalenessCost {
public:
    static constexpr double kKappa = 0.1;
    static constexpr double kRateCost =
        0.3;  ///< half the rate: a fifth less, as ssgd in the sweeps
    [[nodiscard]] double efficiency(const StalenessFeatures& features) const override;
    [[nodiscard]] std::string_view name() const override { return "prior"; }
};

/// A weighted sum of terms of the features, -log e_s, with weights that `cohort efficiency train`
/// finds from sweeps. Terms and weights are not negative and no term falls with the lag. Without a
/// lag and at scale 1 all terms are 0.
using EfficiencyCoefficients = NamedWeights;
class EfficiencyModel final : public StalenessCost {
public:
    static constexpr double kLeast = 0.05;  ///< no plan is said to be worse than this

    /// Errors: FileError for terms that it does not know, or a negative weight.
    explicit EfficiencyModel(const EfficiencyCoefficients& coefficients);
    /// The prior where curvature or noise have not been measured.
    [[nodiscard]] double efficiency(const StalenessFeatures& features) const override;
    [[nodiscard]] std::string_view name() const override { return "model"; }
    /// Names of all terms, and their values.
    [[nodiscard]] static const std::vector<std::string>& term_names();
    [[nodiscard]] static std::vector<double> terms_of(const StalenessFeatures& features);

private:
    std::vector<double> weights_;  ///< of all terms
};
/// Statistical efficiency of updates of M samples with the noise scale phi, relative to B:
/// (phi + B) / (phi + M) under adascale (Pollux), 1 under the per-sample rule.
[[nodiscard]] double batch_efficiency(double noise_scale, double reference_batch, double batch);

}  // namespace cohort
