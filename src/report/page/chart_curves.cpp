#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/scores.hpp"
#include "report/page/cell_text.hpp"
#include "report/page/page_data.hpp"
#include "report/page/svg.hpp"

namespace cohort {
namespace {

constexpr double kCurvesWidth = 440;
constexpr double kHeight = 250;
constexpr double kCurvesLeft = 34;
constexpr double kCurvesRight = 12;
constexpr double kCurvesTop = 22;
constexpr double kCurvesBottom = 32;
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

/// A point of the curve over the runs of a mode.
struct CurvePoint {
    double time_s = 0;
    Spread quality;
};

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
            curve.push_back({.time_s = time_s, .quality = spread_of(values)});
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

/// Range of values shown: around the target, if there is one.
Scale quality_scale(const PageData& data) {
    constexpr double kStep = 0.05;
    const double target = target_of(data);
    double most = target;
    for (const RunRow& row : data.results.rows) {
        most = std::max(most, row.quality.value);
    }
    const double to = std::min(1.0, std::ceil(most / kStep + 0.2) * kStep);
    const double from =
        target > 0 ? std::max(0.0, std::floor((target - kBelowTarget) / kStep) * kStep) : 0;
    return {
        .from = 100 * from, .to = 100 * to, .begin = kHeight - kCurvesBottom, .end = kCurvesTop};
}

std::string points_text(const std::vector<CurvePoint>& curve, const Scale& x, const Scale& y,
                        double Spread::*value) {
    std::string text;
    for (const CurvePoint& point : curve) {
        text += fmt::format("{}{},{}", text.empty() ? "" : " ", place(x(point.time_s)),
                            place(y(100 * (point.quality.*value))));
    }
    return text;
}

void add_curve(Picture& picture, const ExperimentMode& mode, std::size_t index,
               std::vector<CurvePoint> curve, const Scale& x, const Scale& y) {
    const std::string kind = mode_class(index);
    const std::string name = escaped(mode.name);
    std::string band = points_text(curve, x, y, &Spread::most);
    const std::string line = points_text(curve, x, y, &Spread::median);
    std::ranges::reverse(curve);
    band += " " + points_text(curve, x, y, &Spread::least);
    picture.add(
        fmt::format("<g class=\"{}{}\"><title>{}</title><polygon class=\"band\" "
                    "points=\"{}\"/><polyline points=\"{}\"/></g>",
                    kind, mode.role == "ours" ? " ours" : "", name, band, line));
}

}  // namespace

std::string draw_curves(const PageData& data, std::size_t pattern) {
    const std::string& name = data.results.patterns[pattern];
    const double end_s = end_of_axis(data, pattern);
    if (!(end_s > 0)) {
        return "";
    }
    const Scale x{.from = 0, .to = end_s, .begin = kCurvesLeft, .end = kCurvesWidth - kCurvesRight};
    const Scale y = quality_scale(data);
    const std::string id = fmt::format("curve{}", pattern);
    const std::string quality = quality_name(data.results);
    Picture picture(id, kCurvesWidth, kHeight, quality + " over virtual time, " + name,
                    "Median of the test group for every mode, with a band from the least to the "
                    "most of all seeds. The tables have the times to the target.");
    constexpr int kTicks = 5;
    picture.x_axis(x, y.begin, y.begin - y.end, round_ticks(0, end_s, kTicks), "virtual time, s");
    picture.y_axis(y, kCurvesLeft, x.end - x.begin, round_ticks(y.from, y.to, kTicks),
                   quality + " of the test group, %");
    picture.add(fmt::format(
        "<clipPath id=\"{}-c\"><rect x=\"{}\" y=\"{}\" width=\"{}\" "
        "height=\"{}\"/></clipPath><g clip-path=\"url(#{}-c)\">",
        id, place(x.begin), place(y.end), place(x.end - x.begin), place(y.begin - y.end), id));
    for (std::size_t mode = 0; mode < data.results.modes.size(); ++mode) {
        std::vector<CurvePoint> curve = curve_of(data.pictures[mode][pattern], end_s);
        if (curve.size() > 1) {
            add_curve(picture, data.results.modes[mode], mode, std::move(curve), x, y);
        }
    }
    picture.add("</g>");
    if (const double target = target_of(data); target > 0) {
        picture.line(x.begin, y(100 * target), x.end, y(100 * target), "target");
        picture.text(x.begin + 4, y(100 * target) - 3, "start", "target " + percent(target),
                     "what");
    }
    return picture.done();
}

}  // namespace cohort
