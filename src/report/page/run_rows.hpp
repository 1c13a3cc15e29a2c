#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/sched/chooser.hpp"
#include "cohort/sched/reports.hpp"
#include "cohort/sched/stragglers.hpp"
#include "report/page/svg.hpp"

// Parts of pictures with a row per worker over time, of virtual and of real runs.
namespace cohort {

/// Heights of the rows and of the strip with the plans below them.
struct RowHeights {
    double row;
    double bar;         ///< of a row's height
    double name;        ///< of a row's height: baseline of the worker's name
    double strip;       ///< bar of the plans
    double strip_name;  ///< of that: baseline of its name
    double strip_row;   ///< with the gap below
};

/// The places of a run's rows in a picture.
struct RowFrame {
    const RowHeights& heights;
    double top = 0;            ///< of the first row
    std::vector<int> workers;  ///< of the rows
    bool has_strip = false;    ///< below the rows
    Scale x;                   ///< seconds

    [[nodiscard]] double top_of(std::size_t row) const {
        return top + static_cast<double>(row) * heights.row;
    }
    [[nodiscard]] double strip_top() const { return top_of(workers.size()); }
    [[nodiscard]] double bottom() const {
        return strip_top() + (has_strip ? heights.strip_row : 0);
    }
};

/// A stretch of a run under one plan.
struct PlanStretch {
    double begin_s = 0;
    double end_s = 0;
    std::string plan;   ///< "static:7"
    std::string words;  ///< why, for a tooltip
};

/// The workers' names, left of their rows.
void add_row_names(Picture& picture, const RowFrame& frame);
/// The strip of plans, coloured in the order of first appearance and named where there is room.
void add_plans(Picture& picture, const RowFrame& frame, std::span<const PlanStretch> plans);
/// Marks changes of the plan between the ends of the axis, with their reasons as tooltips.
/// @param named  with labels above
void add_changes(Picture& picture, const RowFrame& frame, std::span<const SwitchReport> changes,
                 bool named);
/// Bars at the times at which workers were slow, coloured by cause. @param height  of a bar
void add_episodes(Picture& picture, const RowFrame& frame,
                  std::span<const StragglerEpisode> episodes, double height);
/// Part of a path: a rectangle from `begin` to `end`, at least 0.3 wide.
[[nodiscard]] std::string box_path(double begin, double end, double top, double height);

/// "1.20 to 3.45 s: 2.00 times as long as the fastest; cpu".
[[nodiscard]] std::string words_of(const StragglerEpisode& episode);
/// When a change of mode was in force, in seconds.
[[nodiscard]] double time_of(const SwitchReport& change);
/// "ssgd to asgd", "ssgd regrouped".
[[nodiscard]] std::string words_of(const SwitchReport& change);

}  // namespace cohort
