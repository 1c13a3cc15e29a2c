#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/sched/efficiency.hpp"

namespace cohort {

/// A plan on a model at a learning rate and momentum, and what its samples were worth beside those
/// of ssgd there, over all seeds.
struct EfficiencyRow {
    std::string model;
    double lr = 0;
    std::string plan;
    std::string pattern;
    StalenessFeatures features;  ///< curvature and noise: of the ssgd runs
    double agreement = 0;        ///< of the ssgd runs
    double efficiency = 1;       ///< e_s, measured
};

/// What finished runs of sweeps say. A sweep may lack ssgd: its runs are compared with those of the
/// others that agree in all options but mode, pattern and what concerns stale gradients; learning
/// rates that are too large for ssgd itself are left out. Runs are
/// compared by their loss curves: mean of log loss over seeds, smoothed, monotone; e_s is the
/// geometric mean of (samples of ssgd / samples of the plan) to the same loss, over losses that
/// both reach. Errors: FileError; UsageError when no plan can be compared.
[[nodiscard]] std::vector<EfficiencyRow> efficiency_rows(const std::vector<std::string>& sweeps);

/// Samples that two monotone curves of log loss need for the same, first / second: both begin at
/// the same number of samples and have a value every `step` samples. [points], falling
[[nodiscard]] double curve_ratio(const std::vector<double>& first,
                                 const std::vector<double>& second);

/// How well a cost of staleness sorts plans, and how far it is off.
struct EfficiencyScore {
    double correlation = 0;  ///< Spearman's, of predicted and measured min(e_s, 1)
    double error = 0;        ///< root of the mean squared difference of their logarithms
};
[[nodiscard]] EfficiencyScore score_efficiency(const std::vector<EfficiencyRow>& rows,
                                               const std::vector<double>& predicted);

/// Rows that are left out together.
enum class HoldOut : std::uint8_t { kNothing, kModel, kSetting };

/// Ridge regression of log e_s on terms. What is above 1 counts as met by any prediction from 1 on,
/// since predictions end there. @param terms of EfficiencyModel::term_names()
[[nodiscard]] EfficiencyCoefficients fit_efficiency(const std::vector<EfficiencyRow>& rows,
                                                    const std::vector<std::string>& terms);
/// Predictions for each row by coefficients fitted without the rows that share its model (kModel),
/// or its learning rate and momentum (kSetting).
[[nodiscard]] std::vector<double> predict_held_out(const std::vector<EfficiencyRow>& rows,
                                                   const std::vector<std::string>& terms,
                                                   HoldOut hold_out);
/// Terms that earn their keep: one after the other the one that lowers the error on models left out
/// most, as long as it falls by a hundredth and plans are sorted no worse.
[[nodiscard]] std::vector<std::string> choose_terms(const std::vector<EfficiencyRow>& rows);

/// The same with the terms chosen anew for each group, without its rows: what is to be expected of
/// a model nobody has seen. What no terms explain is predicted 1. @param hold_out  not kNothing
[[nodiscard]] std::vector<double> predict_chosen_without(const std::vector<EfficiencyRow>& rows,
                                                         HoldOut hold_out);

/// Spearman's rank correlation, ties at their mean rank; 0 where one side is constant.
[[nodiscard]] double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace cohort
