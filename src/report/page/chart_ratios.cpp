#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/page/cell_text.hpp"
#include "report/page/page_data.hpp"
#include "report/page/svg.hpp"

namespace cohort {
namespace {

constexpr double kNames = 150;
constexpr double kRatiosWidth = 1000;
constexpr double kGap = 12;  ///< right of every box
constexpr double kHead = 20;
constexpr double kFoot = 22;
constexpr double kRatiosRow = 14;
constexpr std::size_t kMostBesides = 8;
constexpr double kFarthest = 1.3863;   ///< log 4: larger ratios end in an arrow
constexpr double kNarrowest = 0.2232;  ///< log 1.25, a tick

/// Range of logarithms shown: up to a factor of four.
Scale axis_of(const std::vector<Duel>& duels) {
    double low = -kNarrowest;
    double high = kNarrowest;
    for (const Duel& duel : duels) {
        for (const Ratio& ratio : duel.by_pattern) {
            low = std::min(low, ratio.tta.low);
            high = std::max(high, ratio.tta.high);
        }
    }
    return {.from = std::max(low, -kFarthest), .to = std::min(high, kFarthest)};
}

/// One mode under one pattern: a dot at the mean, a line over the interval.
void add_ratio(Picture& picture, const Ratio& ratio, const Scale& x, double y,
               const std::string& kind, const std::string& words) {
    const auto held = [&x](double value) { return x(std::clamp(value, x.from, x.to)); };
    const bool outside = ratio.tta.value < x.from || ratio.tta.value > x.to;
    const double centre = held(ratio.tta.value);
    const std::string mark =
        outside ? fmt::format("<path class=\"dot\" d=\"M{} {}v7l{} -3.5z\"/>", place(centre),
                              place(y - 3.5), ratio.tta.value > x.to ? 5 : -5)
                : fmt::format("<circle class=\"dot\" cx=\"{}\" cy=\"{}\" r=\"3\"/>", place(centre),
                              place(y));
    picture.add(
        fmt::format("<g class=\"{}\"><title>{}</title><polyline points=\"{},{} {},{}\"/>{}</g>",
                    kind, escaped(words), place(held(ratio.tta.low)), place(y),
                    place(held(ratio.tta.high)), place(y), mark));
}

void add_axis(Picture& picture, const Scale& x, double top, double bottom) {
    const std::vector<double> factors = x.to - x.from < 1 ? std::vector{0.5, 0.8, 1.0, 1.25, 2.0}
                                                          : std::vector{0.25, 0.5, 1.0, 2.0, 4.0};
    for (const double factor : factors) {
        const double at = x(std::log(factor));
        if (at >= x.begin && at <= x.end) {
            picture.line(at, top, at, bottom, factor == 1 ? "target" : "grid");
            picture.text(at, bottom + 12, "middle", fmt::format("{:g}", factor));
        }
    }
}

/// Modes with at least one ratio.
std::vector<const Duel*> rows_of(const Comparison& comparison) {
    std::vector<const Duel*> rows;
    for (const Duel& duel : comparison.to_reference) {
        if (duel.mode != comparison.reference && duel.all.pairs > 0) {
            rows.push_back(&duel);
        }
    }
    return rows;
}

/// The box of one pattern; `names` for the first box of a line.
void add_box(Picture& picture, const PageData& data, std::size_t pattern, const Scale& x,
             double top, bool names) {
    const std::vector<const Duel*> rows = rows_of(data.comparison);
    const std::string& name = data.results.patterns[pattern];
    picture.text((x.begin + x.end) / 2, top - 7, "middle", name, "what");
    add_axis(picture, x, top, top + kRatiosRow * static_cast<double>(rows.size()));
    double y = top + kRatiosRow / 2;
    for (const Duel* duel : rows) {
        const ExperimentMode& mode = data.results.modes[duel->mode];
        if (names) {
            picture.text(kNames - 8, y + 3.5, "end", mode.name, "what");
        }
        if (const Ratio& ratio = duel->by_pattern[pattern]; ratio.pairs > 0) {
            add_ratio(picture, ratio, x, y,
                      mode_class(duel->mode) + (mode.role == "ours" ? " ours" : ""),
                      fmt::format("{} under {}: {}", mode.name, name,
                                  change_text(ratio.tta, data.results.seeds.size() > 1)));
        }
        y += kRatiosRow;
    }
}

}  // namespace

std::string draw_ratios(const PageData& data) {
    const Comparison& comparison = data.comparison;
    const std::size_t rows = rows_of(comparison).size();
    const std::size_t patterns = data.results.patterns.size();
    if (rows == 0) {
        return "";
    }
    const std::size_t across = std::min(patterns, kMostBesides);
    const std::size_t lines = (patterns + across - 1) / across;
    const double column = (kRatiosWidth - kNames) / static_cast<double>(across);
    const double height = kHead + kRatiosRow * static_cast<double>(rows) + kFoot;
    const std::string what = comparison.has_target ? "Time to the target" : "Time for a sample";
    Picture picture("ratios", kRatiosWidth, height * static_cast<double>(lines),
                    what + " relative to that of " + data.results.modes[comparison.reference].name,
                    "A box for every pattern, a row for every mode: the mean over the seeds as a "
                    "dot, its 95 % interval as a line; left of 1 is faster.");
    Scale x = axis_of(comparison.to_reference);
    for (std::size_t pattern = 0; pattern < patterns; ++pattern) {
        const std::size_t line = pattern / across;
        x.begin = kNames + column * static_cast<double>(pattern % across);
        x.end = x.begin + column - kGap;
        add_box(picture, data, pattern, x, height * static_cast<double>(line) + kHead,
                pattern % across == 0);
    }
    return picture.done();
}

}  // namespace cohort
