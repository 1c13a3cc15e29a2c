#pragma once

#include <string>
#include <vector>

#include "cohort/report/comparison.hpp"

namespace cohort {

/// A cell in words, for every kind of output.
struct CellText {
    std::string main;                ///< the number, or that there is none
    std::vector<std::string> below;  ///< what belongs to it
    bool best = false;
    bool never = false;  ///< there is no number
};

/// A table whose rows are modes.
struct ReportTable {
    struct Row {
        std::string name;
        std::string note;  ///< "ours", "hindsight" or empty
        std::vector<CellText> cells;
    };
    std::string title;
    std::string caption;  ///< what the numbers are
    std::vector<std::string> columns;
    std::vector<Row> rows;
};

/// All that a sweep has numbers for, the most telling first.
[[nodiscard]] std::vector<ReportTable> report_tables(const SweepResults& results,
                                                     const Comparison& comparison);

}  // namespace cohort
