#pragma once

#include <span>
#include <string>
#include <vector>

#include "cohort/report/comparison.hpp"
#include "cohort/sched/chooser.hpp"

namespace cohort {

/// A cell in words, for every kind of output.
struct CellText {
    std::string main;                ///< the number, or a text in place of a missing number
    std::vector<std::string> below;  ///< lines below the number
    bool best = false;
    bool never = false;  ///< there is no number
    bool words = false;  ///< `main` is a sentence, in lines of its own
};

/// A table with a row for every mode or label.
struct ReportTable {
    struct Row {
        std::string name;
        std::string note;  ///< "ours", "hindsight" or empty
        std::vector<CellText> cells;
    };
    std::string title;
    std::string caption;  ///< meaning of the numbers
    std::vector<std::string> columns;
    std::vector<Row> rows;
    std::string rows_are = "mode";  ///< head of the first column
};
[[nodiscard]] std::string table_html(const ReportTable& table);
[[nodiscard]] std::string table_markdown(const ReportTable& table);

/// A chooser's decisions with their reasons and results. @param of  the mode or run
[[nodiscard]] ReportTable decisions_table(const std::string& of,
                                          std::span<const DecisionRecord> decisions);

/// All tables for which a sweep has numbers, the most important first.
[[nodiscard]] std::vector<ReportTable> report_tables(const SweepResults& results,
                                                     const Comparison& comparison);

/// The results in words: a sentence for each judged mode, with the patterns and modes where it
/// loses; then a note on the reliability of the intervals. Empty: nothing to compare.
[[nodiscard]] std::vector<std::string> verdicts(const SweepResults& results,
                                                const Comparison& comparison);

}  // namespace cohort
