#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cohort/report/comparison.hpp"
#include "cohort/report/sweep_results.hpp"
#include "data/shipped/shipped_file.hpp"

namespace cohort {

/// Data of one run for its pictures.
struct RunPictures {
    std::vector<EvaluationPoint> evaluations;  ///< one for each moment: the last
    std::vector<std::int64_t> lag_histogram;
};

/// A mode under a pattern.
struct CellPictures {
    std::vector<RunPictures> runs;  ///< as ComparedCell::rows
    SimulationResult first;         ///< whole result of the first seed, for the lanes
};

/// All data of a page.
struct PageData {
    SweepResults results;
    Comparison comparison;
    std::vector<std::vector<CellPictures>> pictures;  ///< [mode][pattern]
    OptionList common;                                ///< options that all runs share
};

/// Reads the results of all runs. Errors: FileError.
[[nodiscard]] PageData read_page_data(SweepResults results);

/// "colour and dash" of a mode, for the style sheet: "c0" ... and, from the eighth on, " d1" ...
[[nodiscard]] std::string mode_class(std::size_t mode);

// Pictures, as SVG.

/// Times of every mode relative to the reference's, by pattern, with their intervals.
[[nodiscard]] std::string draw_ratios(const PageData& data);
/// Median accuracy or R2 of every mode over virtual time, with a band from least to most.
[[nodiscard]] std::string draw_curves(const PageData& data, std::size_t pattern);
/// Each worker's activities in a short stretch of a run, with changes of mode.
[[nodiscard]] std::string draw_lanes(const PageData& data, std::size_t mode, std::size_t pattern);
/// Stragglers and plans of a whole run; empty without decisions.
[[nodiscard]] std::string draw_decisions(const PageData& data, std::size_t mode,
                                         std::size_t pattern);
/// Shares of pushes by lag, a row per mode.
[[nodiscard]] std::string draw_lags(const PageData& data, std::size_t pattern);

// Parts of the page.

[[nodiscard]] std::span<const ShippedFile> page_styles();
/// A whole page with its styles. @param title  plain text @param body  in HTML
[[nodiscard]] std::string html_page(const std::string& title, const std::string& body);
/// A picture with its caption, which is plain text.
[[nodiscard]] std::string figure(const std::string& picture, const std::string& caption);
/// Lines of pictures: their classes and names; of squares.
[[nodiscard]] std::string line_legend(
    const std::vector<std::pair<std::string, std::string>>& lines);
[[nodiscard]] std::string square_legend(
    const std::vector<std::pair<std::string, std::string>>& squares);
/// Those of the squares that the pictures have; empty without any.
[[nodiscard]] std::string legend_of(std::vector<std::pair<std::string, std::string>> squares,
                                    const std::string& pictures);
/// Colours and names of the modes; of what workers do in the pictures.
[[nodiscard]] std::string mode_legend(const PageData& data);
[[nodiscard]] std::string lane_legend(const std::string& pictures);
/// Colours of the causes of stragglers in the pictures.
[[nodiscard]] std::string cause_legend(const std::string& pictures);
/// Every table of modes by patterns.
[[nodiscard]] std::string result_tables(const PageData& data);
/// Bytes and processor time of servers and workers under a pattern.
[[nodiscard]] std::string demand_table(const PageData& data, std::size_t pattern);
[[nodiscard]] std::string tuning_table(const PageData& data);
[[nodiscard]] std::string command_lists(const PageData& data);

}  // namespace cohort
