#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/sched/efficiency.hpp"

namespace cohort {

/// A plan on a model at a learning rate and momentum, with the value of its samples relative to
/// ssgd, over all seeds.
struct EfficiencyRow {
    std::string model;
    double lr = 0;     ///< rate of ssgd; the plan's rate is lr times features.lr_scale
    std::string plan;  ///< without its scale
    std::string pattern;
    StalenessFeatures features;  ///< curvature and noise: of the ssgd runs
    double efficiency = 1;       ///< e_s, measured
    double pace = 1;             ///< samples per second relative to ssgd
};

/// Rows from finished runs of sweeps. A plan's runs at 1, 1/2 and 1/4 of a rate are compared with
/// ssgd at that rate, with all other options equal: half the learning rate and a scale of 1/2 are
/// the same. ssgd at 1/2 and 1/4 is a row, too. Rates without practical use are left out: too large
/// for ssgd itself, or below a quarter of its best. Runs are compared by their loss curves: mean of
/// log loss over seeds, smoothed, monotone; e_s is the geometric mean of (samples of ssgd / samples
/// of the plan) to the same loss, over losses that both reach. Errors: FileError; UsageError when
/// no plan can be compared.
[[nodiscard]] std::vector<EfficiencyRow> efficiency_rows(const std::vector<std::string>& sweeps);

/// Ratio first / second of the samples that two monotone curves need for the same log loss: both
/// begin at the same number of samples and have a value every `step` samples. [points], falling
[[nodiscard]] double curve_ratio(const std::vector<double>& first,
                                 const std::vector<double>& second);

/// Quality of a cost of staleness: rank correlation, error, and loss of choosing plans by it.
struct EfficiencyScore {
    double correlation = 0;  ///< Spearman's, of predicted and measured min(e_s, 1)
    double error = 0;        ///< root of the mean squared difference of their logarithms
    /// 1 - (pace x e_s of the chosen plan) / (that of the best plan), both measured; the choice is
    /// among all plans and scales of a model, rate, momentum and pattern, by pace x predicted e_s.
    double mean_regret = 0;
    double worst_regret = 0;
};
[[nodiscard]] EfficiencyScore score_efficiency(const std::vector<EfficiencyRow>& rows,
                                               const std::vector<double>& predicted);

/// Rows that are left out together.
enum class HoldOut : std::uint8_t { kNothing, kModel, kSetting };

/// Ridge regression of -log e_s on all terms, with non-negative weights. e_s above 1 counts as 1,
/// the limit of predictions.
[[nodiscard]] EfficiencyCoefficients fit_efficiency(const std::vector<EfficiencyRow>& rows);
/// Predictions for each row by coefficients fitted without the rows that share its model (kModel),
/// or its learning rate and momentum (kSetting).
[[nodiscard]] std::vector<double> predict_held_out(const std::vector<EfficiencyRow>& rows,
                                                   HoldOut hold_out);

/// Spearman's rank correlation, ties at their mean rank; 0 where one side is constant.
[[nodiscard]] double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace cohort
