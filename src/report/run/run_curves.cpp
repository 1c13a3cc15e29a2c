// Curves of runs over training time, one card for each quantity.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "report/page/page_data.hpp"
#include "report/page/plot.hpp"
#include "report/run/run_page.hpp"

namespace cohort {
namespace {

/// More tests than this are drawn as their means and extremes by column.
constexpr std::size_t kMostPoints = 256;

/// A run's `train` lines as a curve.
std::vector<CurvePoint> train_curve(const RunHistory& run,
                                    const std::function<TimeMean(const RunColumn&)>& of,
                                    double unit = 1) {
    std::vector<CurvePoint> curve;
    const double width_s = run.columns.width_s();
    const std::vector<RunColumn>& columns = run.columns.all();
    for (std::size_t i = 0; i < columns.size(); ++i) {
        const TimeMean mean = of(columns[i]);
        if (mean.seconds > 0) {
            const double middle_s = (static_cast<double>(i) + 0.5) * width_s;
            curve.push_back({.x = std::min(middle_s, run.end_s),
                             .value = unit * mean.mean(),
                             .least = unit * mean.least,
                             .most = unit * mean.most});
        }
    }
    return curve;
}

/// A run's tests as a curve.
std::vector<CurvePoint> test_curve(const RunHistory& run,
                                   const std::function<double(const RunEvaluation&)>& of) {
    std::vector<CurvePoint> curve;
    const std::size_t step = run.evaluations.size() / kMostPoints + 1;
    for (std::size_t first = 0; first < run.evaluations.size(); first += step) {
        const std::size_t last = std::min(run.evaluations.size(), first + step);
        TimeMean mean;
        double time_s = 0;
        for (std::size_t i = first; i < last; ++i) {
            mean.add(of(run.evaluations[i]), 1);
            time_s += run.evaluations[i].train_s / static_cast<double>(last - first);
        }
        if (mean.seconds > 0) {
            curve.push_back(
                {.x = time_s, .value = mean.mean(), .least = mean.least, .most = mean.most});
        }
    }
    return curve;
}

/// Over the live workers.
TimeMean lag_of(const RunColumn& column) {
    TimeMean mean;
    for (const WorkerColumn& worker : column.workers) {
        mean.add(worker.lag);
    }
    return mean;
}

/// The curves of one quantity.
struct Card {
    std::string id;
    std::string title;
    std::string unit;  ///< with the quantity's name, for the axis
    std::string caption;
    std::vector<std::vector<CurvePoint>> train = {};  ///< by run
    std::vector<std::vector<CurvePoint>> test = {};   ///< by run; none: it has no tests

    [[nodiscard]] bool empty() const {
        const auto none = [](const auto& curve) { return curve.empty(); };
        return std::ranges::all_of(train, none) && std::ranges::all_of(test, none);
    }
};

/// From the least to the most of the curves' values, bands aside.
Plot::Axis axis_of(const Card& card, double at_least, double at_most) {
    constexpr double kRoom = 1.04;
    double from = at_least;
    double to = at_most;
    for (const auto* curves : {&card.train, &card.test}) {
        for (const std::vector<CurvePoint>& curve : *curves) {
            for (const CurvePoint& point : curve) {
                from = std::min(from, point.value);
                to = std::max(to, point.value);
            }
        }
    }
    return {
        .from = from, .to = to > from ? from + kRoom * (to - from) : from + 1, .what = card.unit};
}

Plot plot_of(const Card& card, const std::vector<RunHistory>& runs, const Plot::Axis& y) {
    double end_s = 0;
    for (const RunHistory& run : runs) {
        end_s = std::max(end_s, run.end_s);
    }
    Plot plot(card.id, card.title, card.caption,
              {.to = std::max(end_s, 1e-9), .what = "training time, s"}, y);
    for (std::size_t i = 0; i < runs.size(); ++i) {
        if (i < card.train.size() && !card.train[i].empty()) {
            plot.add(mode_class(i) + (card.test.empty() ? "" : " faint"), runs[i].label,
                     card.train[i]);
        }
        if (i < card.test.size() && !card.test[i].empty()) {
            plot.add(mode_class(i), runs[i].label, card.test[i]);
        }
    }
    return plot;
}

/// Marks the level and where runs crossed it.
void add_level(Plot& plot, const std::vector<RunHistory>& runs, const PageLevel& level,
               double unit) {
    plot.target(unit * level.level.value, level.own ? "target " + level.text : level.text);
    for (std::size_t i = 0; i < runs.size(); ++i) {
        if (const auto time_s = time_to(runs[i], level.level)) {
            plot.dot(mode_class(i), *time_s, unit * level.level.value,
                     fmt::format("{} after {}", runs[i].label, moment_text(*time_s)));
        }
    }
}

constexpr const char* kBoth =
    "Thin: on the samples trained with, with a band from the least to the most; thick: on the "
    "test group.";

std::string quality_card(const std::vector<RunHistory>& runs,
                         const std::optional<PageLevel>& level) {
    const bool regression = runs.front().regression();
    const double unit = regression ? 1 : 100;
    const std::string name = regression ? "R2" : "Accuracy";
    Card card{.id = "quality",
              .title = name + " over time",
              .unit = regression ? "R2" : "accuracy, %",
              .caption = kBoth};
    for (const RunHistory& run : runs) {
        card.train.push_back(train_curve(
            run, [](const RunColumn& column) { return column.quality; }, unit));
        card.test.push_back(test_curve(
            run, [unit](const RunEvaluation& test) { return unit * test_quality(test); }));
    }
    if (card.empty()) {
        return "";
    }
    const bool marked = level && !level->level.loss;
    Plot plot = plot_of(card, runs, axis_of(card, 0, marked ? unit * level->level.value : 0));
    if (marked) {
        add_level(plot, runs, *level, unit);
    }
    return figure(plot.done(), card.caption);
}

std::string loss_card(const std::vector<RunHistory>& runs, const std::optional<PageLevel>& level) {
    Card card{.id = "loss", .title = "Loss over time", .unit = "loss", .caption = kBoth};
    for (const RunHistory& run : runs) {
        card.train.push_back(train_curve(run, [](const RunColumn& column) { return column.loss; }));
        card.test.push_back(test_curve(run, [](const RunEvaluation& test) { return test.loss; }));
    }
    if (card.empty()) {
        return "";
    }
    Plot plot = plot_of(card, runs, axis_of(card, 0, 0));
    if (level && level->level.loss) {
        add_level(plot, runs, *level, 1);
    }
    return figure(plot.done(), card.caption);
}

std::string train_card(Card card, const std::vector<RunHistory>& runs,
                       const std::function<TimeMean(const RunColumn&)>& of) {
    for (const RunHistory& run : runs) {
        card.train.push_back(train_curve(run, of));
    }
    return card.empty() ? ""
                        : figure(plot_of(card, runs, axis_of(card, 0, 0)).done(), card.caption);
}

}  // namespace

std::string run_curves(const std::vector<RunHistory>& runs) {
    const std::optional<PageLevel> level = page_level(runs);
    std::vector<std::pair<std::string, std::string>> lines;
    for (std::size_t i = 0; i < runs.size(); ++i) {
        lines.emplace_back(mode_class(i), runs[i].label);
    }
    const std::string cards =
        quality_card(runs, level) + loss_card(runs, level) +
        train_card({.id = "speed",
                    .title = "Speed over time",
                    .unit = "samples per second",
                    .caption = "Samples applied per second of training; the band is from the "
                               "slowest to the fastest window."},
                   runs, [](const RunColumn& column) { return column.samples_per_s; }) +
        train_card({.id = "lag",
                    .title = "Lag over time",
                    .unit = "lag, reference batches",
                    .caption = "Reference batches applied between a worker's start and the "
                               "arrival of its gradient: mean of the live workers, and from the "
                               "least to the most."},
                   runs, lag_of);
    return cards.empty() ? ""
                         : (runs.size() > 1 ? line_legend(lines) : "") +
                               "<div class=\"grid-of\">\n" + cards + "</div>\n";
}

}  // namespace cohort
