// Times of the jobs of fleets, label by label.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/page/cell_text.hpp"
#include "report/page/fleet_page.hpp"
#include "report/page/page_data.hpp"
#include "report/page/svg.hpp"

namespace cohort {
namespace {

constexpr double kFleetWidth = 440;
constexpr double kBarLeft = 96;
constexpr double kBarRight = 118;  ///< width of the numbers beside the bars
constexpr double kBarRow = 26;
constexpr double kBarHead = 22;  ///< above the bars of one time
constexpr double kTimesHeight = 250;
constexpr double kTimesLeft = 34;
constexpr double kTimesTop = 22;
constexpr double kTimesBottom = 32;

double p95_ratio(const FleetGroup& group, const FleetGroup& first, const FleetTime& time) {
    const double below = (first.summary.*time.values).p95;
    return below > 0 ? (group.summary.*time.values).p95 / below : 0;
}

/// The bars of one label: mean with its interval, and a thin one for the 95th percentile.
void add_bars(Picture& picture, const FleetGroup& group, const FleetGroup& first,
              const FleetTime& time, const Scale& x, double y) {
    const double p95 = p95_ratio(group, first, time);
    const Interval& ratio = group.to_first.*time.ratio;
    const Distribution& values = group.summary.*time.values;
    std::string mean = fmt::format("mean {} s", seconds_text(values.mean));
    std::string tail = fmt::format("p95 {} s", seconds_text(values.p95));
    if (&group != &first) {
        mean = change_text(log_ratio(ratio), true);
        tail = "p95 " + change_text(std::log(p95));
    }
    picture.add(fmt::format("<title>{}</title>", escaped(fmt::format("{}, {}: {}, {}", group.label,
                                                                     time.name, mean, tail))));
    picture.text(kBarLeft - 6, y + 9, "end", group.label, "what");
    picture.add(
        fmt::format("<rect class=\"bar soft\" x=\"{0}\" y=\"{1}\" width=\"{2}\" "
                    "height=\"10\"/><rect class=\"bar\" x=\"{0}\" y=\"{3}\" "
                    "width=\"{4}\" height=\"3\"/>",
                    place(x.begin), place(y), place(x(ratio.value) - x.begin), place(y + 12),
                    place(x(p95) - x.begin)));
    if (ratio.high > ratio.low) {
        picture.line(x(ratio.low), y + 5, x(ratio.high), y + 5, "whisker");
    }
    picture.text(x.end + 6, y + 8, "start", mean, "what");
    picture.text(x.end + 6, y + 18, "start", tail);
}

/// Round numbers between two logarithms: 1, 2, 5, 10 ... or, over more decades, 1, 10, 100 ...
std::vector<double> log_ticks(double from, double to) {
    constexpr double kFewDecades = 2.5;
    std::vector<double> ticks;
    for (int power = static_cast<int>(std::floor(from)); power <= std::ceil(to); ++power) {
        for (const double factor : {1.0, 2.0, 5.0}) {
            const double tick = factor * std::pow(10, power);
            if (std::log10(tick) >= from && std::log10(tick) <= to &&
                (factor == 1 || to - from < kFewDecades)) {
                ticks.push_back(tick);
            }
        }
    }
    return ticks;
}

/// Times since arrival, in order, of the jobs that reached their target.
std::vector<double> reached_s(const FleetGroup& group, bool targets) {
    constexpr double kLeast = 1e-3;  // a logarithm is taken
    std::vector<double> times;
    for (const FleetJobResult& job : group.all.jobs) {
        const auto time_s = targets ? job.tta_s() : job.completion_s();
        if (time_s && (!targets || job.target_s)) {
            times.push_back(std::max(kLeast, *time_s));
        }
    }
    std::ranges::sort(times);
    return times;
}

/// @param jobs  that count
void add_steps(Picture& picture, const std::string& label, const std::vector<double>& times,
               std::ptrdiff_t jobs, std::size_t index, const Scale& x, const Scale& y) {
    std::string points = fmt::format("{},{}", place(x.begin), place(y(0)));
    const double step = 100.0 / static_cast<double>(jobs);
    double share = 0;
    for (const double time : times) {
        const std::string at = place(x(std::log10(time)));
        points += fmt::format(" {},{}", at, place(y(share)));
        share += step;
        points += fmt::format(" {},{}", at, place(y(share)));
    }
    points += fmt::format(" {},{}", place(x.end), place(y(share)));
    picture.add(fmt::format("<g class=\"{}\"><title>{}</title><polyline points=\"{}\"/></g>",
                            mode_class(index), escaped(label), points));
}

}  // namespace

std::string draw_fleet_ratios(const std::vector<FleetGroup>& groups) {
    if (groups.size() < 2) {
        return "";
    }
    const FleetGroup& first = groups.front();
    std::vector<FleetTime> times(kFleetTimes.begin(), kFleetTimes.end());
    if (!has_targets(groups)) {
        times.erase(times.begin());
    }
    double most = 1;
    for (const FleetGroup& group : groups) {
        for (const FleetTime& time : times) {
            most =
                std::max({most, (group.to_first.*time.ratio).high, p95_ratio(group, first, time)});
        }
    }
    const Scale x{.from = 0, .to = most, .begin = kBarLeft, .end = kFleetWidth - kBarRight};
    const double part = kBarHead + kBarRow * static_cast<double>(groups.size());
    Picture picture("ratios", kFleetWidth, part * static_cast<double>(times.size()) + 4,
                    "Times relative to those of " + first.label,
                    "Wide bars: mean, with its 95 % interval as a line; thin bars: 95th "
                    "percentile. The tables have the times.");
    double top = 0;
    for (const FleetTime& time : times) {
        picture.text(0, top + 13, "start", fmt::format("{} relative to {}", time.name, first.label),
                     "what");
        double y = top + kBarHead;
        for (std::size_t i = 0; i < groups.size(); ++i) {
            picture.add(fmt::format("<g class=\"{}\">", mode_class(i)));
            if ((groups[i].to_first.*time.ratio).value > 0) {
                add_bars(picture, groups[i], first, time, x, y);
            }
            picture.add("</g>");
            y += kBarRow;
        }
        picture.line(x(1), top + kBarHead - 4, x(1), y, "target");
        top += part;
    }
    return picture.done();
}

std::string draw_fleet_times(const std::vector<FleetGroup>& groups) {
    constexpr double kMargin = 0.05;  // of a decade
    const bool targets = has_targets(groups);
    std::vector<std::vector<double>> times;
    double least = HUGE_VAL;
    double most = 0;
    for (const FleetGroup& group : groups) {
        const std::vector<double>& of = times.emplace_back(reached_s(group, targets));
        least = of.empty() ? least : std::min(least, of.front());
        most = of.empty() ? most : std::max(most, of.back());
    }
    if (!(most > 0)) {
        return "";
    }
    const std::string what = targets ? "Jobs at their target" : "Jobs that ended";
    Picture picture("times", kFleetWidth, kTimesHeight, what + " over time",
                    "A curve per label: share of the jobs by the time since their arrival. A curve "
                    "that ends below 100 % has jobs that missed it. The tables have percentiles.");
    const Scale x{.from = std::log10(least) - kMargin,
                  .to = std::log10(most) + kMargin,
                  .begin = kTimesLeft,
                  .end = kFleetWidth - 12};
    const Scale y{.from = 0, .to = 100, .begin = kTimesHeight - kTimesBottom, .end = kTimesTop};
    for (const double tick : log_ticks(x.from, x.to)) {
        const double at = x(std::log10(tick));
        picture.line(at, y.begin, at, y.end, "grid");
        picture.text(at, y.begin + 13, "middle", short_number(tick));
    }
    picture.x_axis(x, y.begin, 0, {}, "time since arrival, s (logarithmic)");
    picture.y_axis(y, kTimesLeft, x.end - x.begin, round_ticks(0, 100, 5), what + ", %");
    for (std::size_t i = 0; i < groups.size(); ++i) {
        const auto jobs = std::ranges::count_if(groups[i].all.jobs, [&](const FleetJobResult& job) {
            return !targets || has_target(job);
        });
        add_steps(picture, groups[i].label, times[i], jobs, i, x, y);
    }
    return picture.done();
}

}  // namespace cohort
