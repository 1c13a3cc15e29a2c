#pragma once

#include <string>
#include <vector>

#include "report/run/run_history.hpp"

// The page of one or several runs of cohort train: its sentence, pictures, tables and numbers.
namespace cohort {

/// The level whose time the page compares.
struct PageLevel {
    RunLevel level;
    bool own = true;   ///< the runs' own target; false: the best that the worst of them reached
    std::string text;  ///< "80 %"
};
/// None: one run without a target, or too few tests to compare.
[[nodiscard]] std::optional<PageLevel> page_level(const std::vector<RunHistory>& runs);

/// One sentence: who reached the target when, who was slow and why, who was lost, what failed.
[[nodiscard]] std::string run_verdict(const std::vector<RunHistory>& runs);

/// "79.3 % accuracy", "R2 0.91".
[[nodiscard]] std::string quality_text(const RunHistory& run, double quality);
/// A moment of training: "2.1 s", from ten seconds on "1:05".
[[nodiscard]] std::string moment_text(double seconds);
/// Seconds of a worker's time that slowness cost: its duration less what the fastest worker would
/// have needed.
[[nodiscard]] double cost_s(const StragglerEpisode& slow);

/// Lanes of workers, runs under each other on one axis of time: shares of computing, waiting and
/// transferring, slow spans by cause, losses, modes in force, the level's crossing. @param id
/// unique in the page @param width  of the picture in pixels
[[nodiscard]] std::string draw_run_lanes(const std::vector<RunHistory>& runs, const std::string& id,
                                         double width);
/// Of the shares of time that the pictures have.
[[nodiscard]] std::string run_lane_legend(const std::string& pictures);
/// Curves over training time as cards: quality and loss, speed, lag.
[[nodiscard]] std::string run_curves(const std::vector<RunHistory>& runs);

/// One HTML page, without scripts or resources from elsewhere. @param csv  name of the file beside
/// it that run_columns_csv fills
[[nodiscard]] std::string report_html(const std::vector<RunHistory>& runs, const std::string& csv);
/// The sentence and the tables.
[[nodiscard]] std::string report_markdown(const std::vector<RunHistory>& runs);

/// Begin of the file of the page's numbers.
inline constexpr const char* kRunColumnsStart = "run,kind,worker,begin_s";
/// The numbers that the page draws (RFC 4180; an empty field: not known): per run and column of
/// time a row for the run and one for each worker, and a row for each test.
[[nodiscard]] std::string run_columns_csv(const std::vector<RunHistory>& runs);

}  // namespace cohort
