#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cohort/report/sweep_results.hpp"

namespace cohort {

/// Of several runs: the middle one and the extremes. A target that was not reached counts as
/// infinite, so it is never left out.
struct Spread {
    std::size_t runs = 0;  ///< 0: there are none, and the rest is 0
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
    Spread tta_s;
    Spread samples_to_target;
    Spread regret;  ///< of every run whose oracle reached the target: tta / its tta - 1
    Spread accuracy;
    Spread samples_per_s;
};

/// The best fixed mode in hindsight under a pattern.
struct OracleCell {
    std::vector<std::string> choices;  ///< by seed; empty: none reached the target
    Spread tta_s;
};

struct Comparison {
    std::vector<std::vector<ComparedCell>> cells;  ///< [mode][pattern]
    std::vector<OracleCell> oracle;                ///< [pattern]
    std::vector<Spread> regret;                    ///< [mode], over all patterns and seeds
    std::size_t reference = 0;  ///< mode that demands are compared with: the first without another
    bool has_target = false;    ///< of any run
};

/// Medians, oracle and regret of a sweep; docs/sweeps.md defines them.
[[nodiscard]] Comparison compare(const SweepResults& results);

/// The median over a cell's runs of one of their numbers.
[[nodiscard]] double median_of(const ComparedCell& cell, double RunRow::*number);

/// Whether a mode's median is the smallest (the largest) finite one of a pattern.
[[nodiscard]] bool is_least(const Comparison& comparison, Spread ComparedCell::*measure,
                            std::size_t mode, std::size_t pattern);
[[nodiscard]] bool is_most(const Comparison& comparison, Spread ComparedCell::*measure,
                           std::size_t mode, std::size_t pattern);

}  // namespace cohort
