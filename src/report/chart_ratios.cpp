#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cell_text.hpp"
#include "page_data.hpp"
#include "svg.hpp"

namespace cohort {
namespace {

constexpr double kNames = 150;
constexpr double kPanel = 98;
constexpr double kGap = 10;
constexpr double kHead = 20;
constexpr double kFoot = 22;
constexpr double kRow = 14;
constexpr std::size_t kPanelsBesides = 8;
constexpr double kWorst = 1.3863;      ///< log 4: longer lines end in an arrow
constexpr double kNarrowest = 0.0953;  ///< log 1.1

/// What of the logarithms is shown: all that is within a factor of four.
Scale axis_of(const std::vector<Duel>& duels) {
    double low = -kNarrowest;
    double high = kNarrowest;
    for (const Duel& duel : duels) {
        for (const Ratio& ratio : duel.by_pattern) {
            low = std::min(low, ratio.tta.low);
            high = std::max(high, ratio.tta.high);
        }
    }
    return {.from = std::max(low, -kWorst), .to = std::min(high, kWorst)};
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
    for (const double factor : {0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0}) {
        const double log_factor = std::log(factor);
        if (log_factor < x.from - 1e-3 || log_factor > x.to + 1e-3) {
            continue;
        }
        const double at = x(log_factor);
        picture.line(at, top, at, bottom, factor == 1 ? "target" : "grid");
        if (factor == 1 || x.to - x.from < 1 || factor == 0.5 || factor == 2 || factor == 0.25 ||
            factor == 4) {
            picture.text(at, bottom + 12, "middle", fmt::format("{:g}", factor));
        }
    }
}

}  // namespace

std::string draw_ratios(const PageData& data) {
    const Comparison& comparison = data.comparison;
    std::vector<const Duel*> rows;
    for (const Duel& duel : comparison.to_reference) {
        if (duel.mode != comparison.reference && duel.all.pairs > 0) {
            rows.push_back(&duel);
        }
    }
    if (rows.empty()) {
        return "";
    }
    const std::vector<std::string>& patterns = data.results.patterns;
    const std::size_t across = std::min(patterns.size(), kPanelsBesides);
    const std::size_t bands = (patterns.size() + across - 1) / across;
    const double height = kHead + kRow * static_cast<double>(rows.size()) + kFoot;
    const std::string& reference = data.results.modes[comparison.reference].name;
    Picture picture("ratios", kNames + (kPanel + kGap) * static_cast<double>(across),
                    height * static_cast<double>(bands),
                    "Time to the target relative to that of " + reference,
                    "A box for every pattern, a row for every mode: the mean over the seeds as a "
                    "dot, its 95 % interval as a line; left of 1 is faster.");
    Scale x = axis_of(comparison.to_reference);
    for (std::size_t pattern = 0; pattern < patterns.size(); ++pattern) {
        const double top = height * static_cast<double>(pattern / across) + kHead;
        const double bottom = top + kRow * static_cast<double>(rows.size());
        x.begin = kNames + (kPanel + kGap) * static_cast<double>(pattern % across);
        x.end = x.begin + kPanel;
        picture.text((x.begin + x.end) / 2, top - 7, "middle", patterns[pattern], "what");
        add_axis(picture, x, top, bottom);
        for (std::size_t row = 0; row < rows.size(); ++row) {
            const Duel& duel = *rows[row];
            const ExperimentMode& mode = data.results.modes[duel.mode];
            const double y = top + kRow * (static_cast<double>(row) + 0.5);
            if (pattern % across == 0) {
                picture.text(kNames - 8, y + 3.5, "end", mode.name, "what");
            }
            if (const Ratio& ratio = duel.by_pattern[pattern]; ratio.pairs > 0) {
                add_ratio(picture, ratio, x, y,
                          mode_class(duel.mode) + (mode.role == "ours" ? " ours" : ""),
                          fmt::format("{} under {}: {}", mode.name, patterns[pattern],
                                      change_text(ratio.tta, data.results.seeds.size() > 1)));
            }
        }
    }
    return picture.done();
}

}  // namespace cohort
