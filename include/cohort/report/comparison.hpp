#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cohort/core/statistics.hpp"
#include "cohort/report/sweep_results.hpp"

namespace cohort {

/// Median and extremes over several runs. A target that was not reached counts as infinite, so no
/// run is left out.
struct Spread {
    std::size_t runs = 0;  ///< 0: no runs, and all other fields are 0
    std::size_t finite = 0;
    double median = 0;
    double least = 0;
    double most = 0;
};

/// Errors: none; NaN must not be among the values.
[[nodiscard]] Spread spread_of(const std::vector<double>& values);

/// A mode under a pattern, over the seeds.
struct ComparedCell {
    std::vector<RunRow> rows;
    Spread tta_s;  ///< of the runs with a target
    Spread accuracy;
    Spread samples_per_s;
    Spread of_ideal;  ///< samples_per_s / the ideal pace of the same pattern and seed
};

/// Logarithms of ratios: a mode's runs to others of the same pattern and seed, means over these
/// pairs, with intervals over the seeds. tta = samples - pace. A run that missed the target counts
/// as if it had reached it with the last sample of its budget, at its own pace.
struct Ratio {
    std::size_t pairs = 0;         ///< 0: no pairs, and all other fields are 0
    std::size_t misses = 0;        ///< pairs in which the mode missed the target
    std::size_t other_misses = 0;  ///< pairs in which the other mode missed the target
    Interval tta;                  ///< time to the target; without a target time per sample
    Interval samples;              ///< samples to the target; without a target 0
    Interval pace;                 ///< samples per second
};

/// Comparison of a mode with another one.
struct Duel {
    std::size_t mode = 0;
    std::size_t other = 0;
    std::vector<Ratio> by_pattern;
    Ratio all;  ///< over all patterns and seeds
};

/// Comparison of a mode with the cross-fitted oracle.
struct Regret {
    std::vector<Ratio> by_pattern;
    Interval median;  ///< median of the patterns' means
    Interval worst;   ///< worst of the patterns' means
    std::size_t worst_pattern = 0;
    std::size_t patterns = 0;  ///< patterns that have an oracle; 0: all other fields are 0
};

struct Comparison {
    std::vector<std::vector<ComparedCell>> cells;  ///< [mode][pattern]
    std::vector<bool> complete;      ///< [pattern]: all runs of all modes are finished
    std::size_t reference = 0;       ///< mode that others are compared with; default: the first
    std::vector<Duel> to_reference;  ///< [mode]
    /// Modes that the report is about: with `versus`, else those of role "ours", else the one with
    /// the shortest time relative to the reference's.
    std::vector<std::size_t> judged;
    std::vector<Duel> duels;  ///< of the judged modes with every other, by mode
    /// [pattern][seed]: the best fixed mode by all other seeds; empty: runs are missing, or there
    /// is only one seed.
    std::vector<std::vector<std::string>> oracle;
    std::vector<Regret> regrets;  ///< [mode]
    bool has_target = false;      ///< some run has a target
};

/// Compares the modes of a sweep as docs/sweeps.md defines it.
[[nodiscard]] Comparison compare(const SweepResults& results);

/// The median over a cell's runs of one of their numbers.
[[nodiscard]] double median_of(const ComparedCell& cell, double RunRow::*number);

/// Whether a mode's median is the best finite one of a pattern whose runs are all finished: the
/// smallest of tta_s, the largest of any other measure.
[[nodiscard]] bool is_best(const Comparison& comparison, Spread ComparedCell::*measure,
                           std::size_t mode, std::size_t pattern);

}  // namespace cohort
