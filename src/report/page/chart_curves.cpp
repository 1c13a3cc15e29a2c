#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/scores.hpp"
#include "report/page/cell_text.hpp"
#include "report/page/page_data.hpp"
#include "report/page/plot.hpp"

namespace cohort {
namespace {

constexpr int kPoints = 72;      ///< of a curve
constexpr double kPastBest = 4;  ///< the axis ends at so many times the best time to the target
constexpr double kBelowTarget = 0.2;

double quality_of(const EvaluationPoint& point) {
    return point.accuracy.value_or(r_squared(point.loss));
}

/// Quality of a run at a time: straight lines between evaluations, the last one afterwards;
/// none before the first.
std::optional<double> quality_at(const RunPictures& run, double time_s) {
    const std::vector<EvaluationPoint>& points = run.evaluations;
    if (points.empty() || time_s < points.front().virtual_s) {
        return std::nullopt;
    }
    const auto after = std::ranges::find_if(
        points, [time_s](const auto& point) { return point.virtual_s >= time_s; });
    if (after == points.end()) {
        return quality_of(points.back());
    }
    if (after == points.begin() || after->virtual_s == time_s) {
        return quality_of(*after);
    }
    const auto before = after - 1;
    const double part = (time_s - before->virtual_s) / (after->virtual_s - before->virtual_s);
    return std::lerp(quality_of(*before), quality_of(*after), part);
}

/// From the first moment at which every run has been evaluated to the end of the longest one.
std::vector<CurvePoint> curve_of(const CellPictures& cell, double end_s) {
    std::vector<CurvePoint> curve;
    double last_s = 0;
    for (const RunPictures& run : cell.runs) {
        last_s = std::max(last_s, run.evaluations.empty() ? 0 : run.evaluations.back().virtual_s);
    }
    end_s = std::min(end_s, last_s);
    for (int i = 0; i <= kPoints; ++i) {
        const double time_s = end_s * i / kPoints;
        std::vector<double> values;
        for (const RunPictures& run : cell.runs) {
            if (const auto quality = quality_at(run, time_s)) {
                values.push_back(*quality);
            }
        }
        if (!values.empty() && values.size() == cell.runs.size()) {
            const Spread spread = spread_of(values);
            curve.push_back({.x = time_s,
                             .value = 100 * spread.median,
                             .least = 100 * spread.least,
                             .most = 100 * spread.most});
        }
    }
    return curve;
}

double end_of_axis(const PageData& data, std::size_t pattern) {
    double end_s = 0;
    double best_s = std::numeric_limits<double>::infinity();
    for (const auto& cells : data.comparison.cells) {
        for (const RunRow& row : cells[pattern].rows) {
            end_s = std::max(end_s, row.virtual_s);
        }
        if (cells[pattern].tta_s.runs > 0) {
            best_s = std::min(best_s, cells[pattern].tta_s.median);
        }
    }
    return std::min(end_s, kPastBest * best_s);
}

double target_of(const PageData& data) {
    return data.results.rows.empty() ? 0 : data.results.rows.front().target_accuracy;
}

/// Range of values shown, in percent: around the target, if there is one.
Plot::Axis quality_axis(const PageData& data) {
    constexpr double kStep = 0.05;
    const double target = target_of(data);
    double most = target;
    for (const RunRow& row : data.results.rows) {
        most = std::max(most, row.quality.value);
    }
    const double to = std::min(1.0, std::ceil(most / kStep + 0.2) * kStep);
    const double from =
        target > 0 ? std::max(0.0, std::floor((target - kBelowTarget) / kStep) * kStep) : 0;
    return {.from = 100 * from,
            .to = 100 * to,
            .what = quality_name(data.results) + " of the test group, %"};
}

}  // namespace

std::string draw_curves(const PageData& data, std::size_t pattern) {
    const std::string& name = data.results.patterns[pattern];
    const double end_s = end_of_axis(data, pattern);
    if (!(end_s > 0)) {
        return "";
    }
    Plot plot(fmt::format("curve{}", pattern),
              quality_name(data.results) + " over virtual time, " + name,
              "Median of the test group for every mode, with a band from the least to the most of "
              "all seeds. The tables have the times to the target.",
              {.to = end_s, .what = "virtual time, s"}, quality_axis(data));
    for (std::size_t index = 0; index < data.results.modes.size(); ++index) {
        const ExperimentMode& mode = data.results.modes[index];
        const std::vector<CurvePoint> curve = curve_of(data.pictures[index][pattern], end_s);
        if (curve.size() > 1) {
            plot.add(mode_class(index) + (mode.role == "ours" ? " ours" : ""), mode.name, curve);
        }
    }
    if (const double target = target_of(data); target > 0) {
        plot.target(100 * target, "target " + percent(target));
    }
    return plot.done();
}

}  // namespace cohort
