#pragma once

#include <string>
#include <vector>

#include "cohort/report/comparison.hpp"

namespace cohort {

/// Which end of a column is the good one.
enum class Better { kLess, kMore };

/// A table of modes by patterns.
struct Measure {
    std::string title;
    std::string unit;  ///< as a reader reads it after the title: "virtual seconds"
    Spread ComparedCell::*spread = nullptr;
    std::string (*format)(double) = nullptr;
    Better better = Better::kLess;
};

/// Those that a sweep has numbers for.
[[nodiscard]] std::vector<Measure> measures_of(const Comparison& comparison);

/// A cell in words, for every kind of table.
struct CellText {
    std::string median;  ///< or that it was not reached
    std::string spread;  ///< "398 to 431"; empty for a single run
    bool best = false;
    bool never = false;  ///< the median is infinite
};
[[nodiscard]] CellText cell_text(const Comparison& comparison, const Measure& measure,
                                 std::size_t mode, std::size_t pattern, std::size_t seeds);
/// Of the oracle's row.
[[nodiscard]] CellText oracle_text(const OracleCell& oracle);
/// Median and worst regret of a mode, over everything.
[[nodiscard]] CellText regret_text(const Comparison& comparison, std::size_t mode);

/// Column heads of a mode's duels; and the cells of one, in their order.
[[nodiscard]] std::vector<std::string> duel_columns(const std::vector<std::string>& patterns);
[[nodiscard]] std::vector<CellText> duel_cells(const Duel& duel,
                                               const std::vector<std::string>& patterns);

/// How often it was which: "asgd ×3, ssgd ×2", the most frequent first.
[[nodiscard]] std::string choices_text(const OracleCell& oracle);

[[nodiscard]] std::string seconds_text(double seconds);
/// 0.88 -> "88 %", 0.885 -> "88.5 %".
[[nodiscard]] std::string percent(double share);
/// "+12 %", "-3 %", of a ratio less one.
[[nodiscard]] std::string signed_percent(double share);

}  // namespace cohort
