#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// What the cost of staleness is estimated from: dimensionless, known before a plan is tried.
struct StalenessFeatures {
    double mean_lag = 0;  ///< of the plan, reference batches (PlanTiming)
    double max_lag = 0;
    double momentum = 0;
    bool look_ahead = false;
    double step_curvature = 0;  ///< learning rate / (1 - momentum) x curvature along the step; 0:
                                ///< not measured
    double noise_ratio = 0;     ///< phi / B; 0: not measured
    double agreement = 0;       ///< of stale and fresh gradients; 0: not measured
    double progress = 0;        ///< of the budget, 0..1
};

/// e_s: samples that ssgd needs / samples that a plan needs for the same progress.
class StalenessCost {
public:
    StalenessCost() = default;
    StalenessCost(const StalenessCost&) = delete;
    StalenessCost& operator=(const StalenessCost&) = delete;
    virtual ~StalenessCost() = default;
    [[nodiscard]] virtual double efficiency(const StalenessFeatures& features) const = 0;
    [[nodiscard]] virtual std::string_view name() const = 0;
};

/// 1 / (1 + kappa lag).
class StalenessPrior final : public StalenessCost {
public:
    static constexpr double kKappa = 0.3;
    [[nodiscard]] double efficiency(const StalenessFeatures& features) const override;
    [[nodiscard]] std::string_view name() const override { return "prior"; }
};

/// A regressor on log e_s with coefficients that `cohort efficiency train` finds from sweeps.
struct EfficiencyCoefficients {
    std::string trained_on;  ///< one line
    std::vector<std::string> terms;
    std::vector<double> weights;  ///< of each term
};
class EfficiencyModel final : public StalenessCost {
public:
    /// Errors: FileError for terms that it does not know.
    explicit EfficiencyModel(EfficiencyCoefficients coefficients);
    [[nodiscard]] double efficiency(const StalenessFeatures& features) const override;
    [[nodiscard]] std::string_view name() const override { return "model"; }
    /// Names of all terms, and their values.
    [[nodiscard]] static std::vector<std::string> term_names();
    [[nodiscard]] static std::vector<double> terms_of(const StalenessFeatures& features);

private:
    EfficiencyCoefficients coefficients_;
};
/// Those that Cohort brings along.
[[nodiscard]] const EfficiencyCoefficients& shipped_efficiency();

/// Statistical efficiency of updates of M samples with the noise scale phi, relative to B:
/// (phi + B) / (phi + M) under adascale (Pollux), 1 under the per-sample rule.
[[nodiscard]] double batch_efficiency(double noise_scale, double reference_batch, double batch);

/// Watches a run under stale plans: says when the training loss rises, or stays flat although the
/// runs before fell. Pure.
class StalenessGuard {
public:
    /// An update's mean loss over its samples. @param lag  mean of its pushes, reference batches
    void add(double loss, std::int64_t samples, double lag);
    /// Plans with at least this mean lag have harmed the run; infinity: none has.
    [[nodiscard]] double lag_limit() const noexcept { return limit_; }
    /// Why, when the limit has just fallen; empty otherwise. Clears it.
    [[nodiscard]] std::string take_reason();

private:
    double limit_ = 1e300;
    double fast_ = 0;  ///< loss, averaged over few samples
    double slow_ = 0;  ///< over many
    double deviation_ = 0;
    double lag_ = 0;
    std::int64_t seen_ = 0;
    std::string reason_;
};

}  // namespace cohort
