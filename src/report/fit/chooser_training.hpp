#pragma once

#include <map>
#include <string>
#include <vector>

#include "cohort/sched/rate_regressor.hpp"

namespace cohort {

/// Rates that the plans of one run achieved, in the order of time.
struct RateRun {
    std::string file;
    std::string pattern;  ///< without its strength; for a real run its folder
    std::vector<RateWindow> windows;
};

/// Reads folders of runs (result.h5 of `cohort simulate`, metrics.jsonl of `cohort train`) and of
/// sweeps; runs without windows are left out. Errors: FileError naming file and line; UsageError
/// when there is no window at all.
[[nodiscard]] std::vector<RateRun> rate_runs(const std::vector<std::string>& folders);

/// Ridge regression towards RateRegressor::start_weights(), with the prior variance of a new run.
/// No run counts for more than 40 windows, and the weight of a window falls with a prediction error
/// above 2 %: a temporarily misjudged load says little about plans.
[[nodiscard]] NamedWeights fit_rates(const std::vector<RateRun>& runs);

/// Errors of the logarithm of measured rates: mean over windows, then over runs. Each window is
/// predicted before the regressor learns from it.
struct RateScore {
    std::size_t runs = 0;
    double timing_model = 0;     ///< uncorrected
    double fixed = 0;            ///< the weights, without learning
    double anew = 0;             ///< a regressor that starts each run with the start weights
    double continued = 0;        ///< a regressor that starts each run with the weights
    double anew_first = 0;       ///< `anew` over a run's first kFirst windows
    double continued_first = 0;  ///< `continued` over these windows
    static constexpr std::size_t kFirst = 8;

    /// Combines two scores.
    void merge(const RateScore& other);
};
/// @param run  of at least one window
[[nodiscard]] RateScore score_rates(const RateRun& run, const RateRegressor::Weights& weights);

/// Scores by pattern, each with weights fitted without the runs of that pattern.
[[nodiscard]] std::map<std::string, RateScore> score_held_out(const std::vector<RateRun>& runs);

}  // namespace cohort
