#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "report/page/page_data.hpp"
#include "report/page/plan_strip.hpp"
#include "report/page/svg.hpp"

namespace cohort {
namespace {

constexpr double kWorkerLane = 15;
constexpr double kWorkerBar = 11;        ///< of a lane's height
constexpr std::size_t kMostSpans = 420;  ///< that are drawn

constexpr std::array<const char*, 7> kKinds{"delay", "input", "compute", "push",
                                            "wait",  "pull",  "lost"};

/// A stretch of virtual time.
struct Window {
    double begin_s = 0;
    double end_s = 0;
};

/// When a change of mode was in force.
double time_of(const SwitchReport& change) {
    return change.train_seconds + change.in_force_s.value_or(0);
}

double recorded_until(const std::vector<LaneSpan>& lanes) {
    double end_s = 0;
    for (const LaneSpan& span : lanes) {
        end_s = std::max(end_s, span.end_s);
    }
    return end_s;
}

/// Centre of the picture: the first recorded change of mode, else the longest step or wait.
double centre_of(const SimulationResult& run) {
    const double end_s = recorded_until(run.lanes);
    for (const SwitchReport& change : run.switches) {
        if (time_of(change) >= run.lanes_from_s && time_of(change) < end_s) {
            return time_of(change);
        }
    }
    const auto longest = std::max_element(
        run.lanes.begin(), run.lanes.end(), [](const LaneSpan& one, const LaneSpan& other) {
            return one.end_s - one.begin_s < other.end_s - other.begin_s;
        });
    return (longest->begin_s + longest->end_s) / 2;
}

/// The window around the centre that kMostSpans spans fill on average.
Window window_of(const SimulationResult& run) {
    const double from_s = run.lanes_from_s;
    const double end_s = recorded_until(run.lanes);
    const double all = static_cast<double>(run.lanes.size());
    const double length = (end_s - from_s) * std::min(1.0, kMostSpans / all);
    const double begin =
        std::clamp(centre_of(run) - length / 2, from_s, std::max(from_s, end_s - length));
    return {.begin_s = begin, .end_s = begin + length};
}

/// One path per kind: rectangles one after the other.
std::map<int, std::string> paths_of(const SimulationResult& run, const Window& window,
                                    const Scale& x, int workers) {
    std::map<int, std::string> paths;
    for (const LaneSpan& span : run.lanes) {
        const double begin = std::max(span.begin_s, window.begin_s);
        const double end = std::min(span.end_s, window.end_s);
        if (end <= begin || span.worker >= workers) {
            continue;
        }
        const double width = std::max(0.3, x(end) - x(begin));
        paths[static_cast<int>(span.kind)] += fmt::format(
            "M{:.1f} {}h{:.1f}v{}H{:.1f}z", x(begin),
            place(kRunFrame.top + span.worker * kWorkerLane), width, place(kWorkerBar), x(begin));
    }
    return paths;
}

/// Marks changes of the plan. @param named  with labels above, unless a strip of plans has them
void add_changes(Picture& picture, const SimulationResult& run, const Window& window,
                 const Scale& x, double bottom, bool named) {
    for (const SwitchReport& change : run.switches) {
        const double time_s = time_of(change);
        if (time_s < window.begin_s || time_s > window.end_s) {
            continue;
        }
        const std::string what =
            change.same_mode() ? change.to + " arranged anew" : change.from + " to " + change.to;
        picture.add(
            fmt::format("<g><title>{}</title>",
                        escaped(fmt::format("{:.2f} s: {}; {}", time_s, what, change.why))));
        picture.line(x(time_s), kRunFrame.top - 4, x(time_s), bottom, "change");
        if (named) {
            const bool left = x(time_s) > kRunFrame.width / 2;
            picture.text(x(time_s) + (left ? -3 : 3), kRunFrame.top - 7, left ? "end" : "start",
                         what, "what");
        }
        picture.add("</g>");
    }
}

}  // namespace

std::string draw_lanes(const PageData& data, std::size_t mode, std::size_t pattern) {
    const SimulationResult& run = data.pictures[mode][pattern].first;
    if (run.lanes.empty()) {
        return "";
    }
    const std::string& name = data.results.modes[mode].name;
    const int workers = std::min<int>(kRunFrame.most_workers, static_cast<int>(run.workers.size()));
    const Window window = window_of(run);
    const Scale x{.from = window.begin_s,
                  .to = window.end_s,
                  .begin = kRunFrame.left,
                  .end = kRunFrame.width - kRunFrame.right};
    const std::vector<PlanStretch> plans = plan_stretches(run);
    const double strip = kRunFrame.top + workers * kWorkerLane;
    const double bottom = strip + (plans.empty() ? 0 : kWorkerLane);
    Picture picture(fmt::format("lane{}-{}", mode, pattern), kRunFrame.width,
                    bottom + kRunFrame.bottom,
                    fmt::format("Workers under {}, {}", name, data.results.patterns[pattern]),
                    "A row per worker, coloured by what it does. The tables of demands have the "
                    "shares of time spent waiting.");
    constexpr int kTicks = 8;
    picture.x_axis(x, bottom, bottom - kRunFrame.top, round_ticks(x.from, x.to, kTicks),
                   "virtual time, s");
    picture.text(0, kRunFrame.top - 7, "start", name, "what");
    for (int worker = 0; worker < workers; ++worker) {
        picture.text(kRunFrame.left - 4, kRunFrame.top + worker * kWorkerLane + kWorkerBar - 2,
                     "end", fmt::format("worker {}", worker));
    }
    for (const auto& [kind, path] : paths_of(run, window, x, workers)) {
        picture.add(fmt::format("<path class=\"k{}\" d=\"{}\"><title>{}</title></path>", kind, path,
                                kKinds.at(static_cast<std::size_t>(kind))));
    }
    if (!plans.empty()) {
        picture.text(kRunFrame.left - 4, strip + kWorkerBar - 2, "end", "plan", "what");
        add_plan_strip(picture, plans, x, strip, kWorkerBar);
    }
    add_changes(picture, run, window, x, bottom, plans.empty());
    return picture.done();
}

std::string lane_legend() {
    return swatch_legend('k', {kKinds.begin(), kKinds.end()});
}

}  // namespace cohort
