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
    std::size_t aimed = 0;  ///< of them, runs with a target; they alone count in the next three
    Spread tta_s;
    Spread samples_to_target;
    /// tta / the oracle's - 1; -1 where the mode reached what no fixed one did. Runs without an
    /// oracle to compare with, and those that failed as it did, have none.
    Spread regret;
    Spread accuracy;
    Spread samples_per_s;
};

/// The best fixed mode in hindsight under a pattern.
struct OracleCell {
    std::vector<std::string> choices;  ///< by seed; empty: none reached the target
    std::size_t waiting = 0;           ///< seeds of which a run is missing: they have no oracle
    Spread tta_s;
};

/// A mode's times to the target relative to another's of the same pattern and seed, less one; -1
/// where it alone reached the target. Pairs of which neither did have none.
struct Duel {
    std::size_t mode = 0;
    std::size_t other = 0;
    std::vector<Spread> by_pattern;  ///< over the seeds
    Spread all;                      ///< over all patterns and seeds
    Spread slow;                     ///< the same without the pattern kHealthyPattern
};
/// Name of the pattern under which nobody is slow.
inline constexpr const char* kHealthyPattern = "healthy";

struct Comparison {
    std::vector<std::vector<ComparedCell>> cells;  ///< [mode][pattern]
    std::vector<OracleCell> oracle;                ///< [pattern]
    std::vector<Spread> regret;                    ///< [mode], over all patterns and seeds
    std::vector<std::size_t> pairs;                ///< [mode], of pattern and seed, that could be
    std::vector<bool> complete;                    ///< [pattern]: all runs of all modes are there
    std::vector<Duel> duels;    ///< of modes that ask for it, with every other, by mode
    std::size_t reference = 0;  ///< mode that demands are compared with: the first without another
    bool has_target = false;    ///< of any run
};

/// Medians, oracle and regret of a sweep; docs/sweeps.md defines them.
[[nodiscard]] Comparison compare(const SweepResults& results);

/// The median over a cell's runs of one of their numbers.
[[nodiscard]] double median_of(const ComparedCell& cell, double RunRow::*number);

/// Whether a mode's median is the smallest (the largest) finite one of a pattern whose runs are
/// all there.
[[nodiscard]] bool is_least(const Comparison& comparison, Spread ComparedCell::*measure,
                            std::size_t mode, std::size_t pattern);
[[nodiscard]] bool is_most(const Comparison& comparison, Spread ComparedCell::*measure,
                           std::size_t mode, std::size_t pattern);

}  // namespace cohort
