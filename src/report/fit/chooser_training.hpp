#pragma once

#include <map>
#include <string>
#include <vector>

#include "cohort/sched/rate_regressor.hpp"

namespace cohort {

/// What the plans of one run achieved, in the order of time.
struct RateRun {
    std::string file;
    std::string pattern;  ///< without its strength; of a real run its folder
    std::vector<RateWindow> windows;
};

/// Of folders of runs (result.h5 of `cohort simulate`, metrics.jsonl of `cohort train`) and of
/// sweeps; runs without windows are left out. Errors: FileError naming file and line; UsageError
/// when there is no window at all.
[[nodiscard]] std::vector<RateRun> rate_runs(const std::vector<std::string>& folders);

/// Ridge regression towards RateRegressor::start_weights(), as doubtful as a run that begins with
/// them is. No run counts for more than 40 windows, and windows that the weights miss by more than
/// 2 % count the less the more: what the load model got wrong once says little of plans.
[[nodiscard]] NamedWeights fit_rates(const std::vector<RateRun>& runs);

/// Errors of the logarithm of measured rates: mean over windows, then over runs. Each window is
/// predicted before it is learned from.
struct RateScore {
    std::size_t runs = 0;
    double timing_model = 0;     ///< uncorrected
    double fixed = 0;            ///< weights as they are
    double anew = 0;             ///< a regressor that each run begins without what others taught
    double continued = 0;        ///< a regressor that each run begins with the weights
    double anew_first = 0;       ///< the same of a run's first kFirst windows
    double continued_first = 0;  ///< the same
    static constexpr std::size_t kFirst = 8;

    /// Of both together.
    void merge(const RateScore& other);
};
/// @param run  of at least one window
[[nodiscard]] RateScore score_rates(const RateRun& run, const RateRegressor::Weights& weights);

/// By pattern, with weights fitted without its runs.
[[nodiscard]] std::map<std::string, RateScore> score_held_out(const std::vector<RateRun>& runs);

}  // namespace cohort
