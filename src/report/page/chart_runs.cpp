#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "cohort/sched/chooser.hpp"
#include "report/page/page_data.hpp"
#include "report/page/run_rows.hpp"
#include "report/page/svg.hpp"

// Two pictures of a run with a row per worker: what workers did in a short stretch of it, and who
// was a straggler when over the whole run. A strip below the rows has the plans of a chooser.
namespace cohort {
namespace {

constexpr double kRunWidth = 900;
constexpr double kRunLeft = 66;
constexpr double kRunRight = 12;
constexpr double kRunTop = 22;
constexpr double kRunBottom = 32;
constexpr std::size_t kMostRows = 16;    ///< the first workers
constexpr std::size_t kMostSpans = 420;  ///< that are drawn

constexpr std::array<const char*, 7> kKinds{"delay", "input", "compute", "push",
                                            "wait",  "pull",  "lost"};

constexpr RowHeights kLaneRows{
    .row = 15, .bar = 11, .name = 9, .strip = 11, .strip_name = 9, .strip_row = 15};
constexpr RowHeights kEpisodeRows{
    .row = 13, .bar = 9, .name = 9, .strip = 14, .strip_name = 11, .strip_row = 17};

/// "static:7; why; 5,000 samples/s predicted, 4,800 measured over 3.2 s; next best asgd".
std::string decision_words(const DecisionRecord& decision) {
    const Candidate* const chosen = chosen_candidate(decision);
    std::string words = fmt::format("{:.2f} s: {}; {}", decision.seconds,
                                    plan_in_label(decision.to), decision.reason);
    if (chosen != nullptr) {
        words += fmt::format("; {} samples/s predicted", short_number(chosen->samples_s));
    }
    words += fmt::format("; {} measured over {} s", short_number(decision.measured_samples_s),
                         short_number(decision.held_s));
    const std::string other = runner_up_of(decision);
    return other.empty() ? words : words + "; next best: " + other;
}

/// The stretches of a run with decisions; none without decisions. Between two stretches a plan
/// without a recorded decision may have been in force.
std::vector<PlanStretch> plan_stretches(const SimulationResult& run) {
    std::vector<PlanStretch> stretches;
    if (!run.decisions.empty()) {
        const DecisionRecord& first = run.decisions.front();
        const std::string plan = plan_in_label(first.from);
        stretches.push_back(
            {.end_s = first.seconds, .plan = plan, .words = plan + " at the start"});
    }
    for (const DecisionRecord& decision : run.decisions) {
        stretches.push_back({.begin_s = decision.seconds,
                             .end_s = decision.seconds + decision.held_s,
                             .plan = plan_in_label(decision.to),
                             .words = decision_words(decision)});
    }
    return stretches;
}

/// The rows of a virtual run between two moments.
RowFrame frame_of(const SimulationResult& run, const RowHeights& heights, double begin_s,
                  double end_s) {
    RowFrame frame{
        .heights = heights,
        .top = kRunTop,
        .has_strip = !run.decisions.empty(),
        .x = {.from = begin_s, .to = end_s, .begin = kRunLeft, .end = kRunWidth - kRunRight}};
    frame.workers.resize(std::min(kMostRows, run.workers.size()));
    std::iota(frame.workers.begin(), frame.workers.end(), 0);
    return frame;
}

/// A picture with the axis of time and the names of the rows.
Picture framed(const RowFrame& frame, const std::string& id, std::string_view title,
               std::string_view description, std::string_view heading) {
    constexpr int kTicks = 8;
    Picture picture(id, kRunWidth, frame.bottom() + kRunBottom, title, description);
    picture.x_axis(frame.x, frame.bottom(), frame.bottom() - kRunTop,
                   round_ticks(frame.x.from, frame.x.to, kTicks), "virtual time, s");
    picture.text(0, kRunTop - 7, "start", heading, "what");
    add_row_names(picture, frame);
    return picture;
}

/// Centre of the picture of lanes that were recorded until `end_s`: the first recorded change of
/// mode, else the longest step or wait.
double centre_of(const SimulationResult& run, double end_s) {
    for (const SwitchReport& change : run.switches) {
        if (time_of(change) >= run.lanes_from_s && time_of(change) < end_s) {
            return time_of(change);
        }
    }
    const auto longest = std::ranges::max_element(
        run.lanes, {}, [](const LaneSpan& span) { return span.end_s - span.begin_s; });
    return (longest->begin_s + longest->end_s) / 2;
}

/// Begin and end of the window around the centre that kMostSpans spans fill on average.
std::pair<double, double> window_of(const SimulationResult& run) {
    const double from_s = run.lanes_from_s;
    const double end_s = std::max(0.0, std::ranges::max(run.lanes, {}, &LaneSpan::end_s).end_s);
    const double all = static_cast<double>(run.lanes.size());
    const double length = (end_s - from_s) * std::min(1.0, kMostSpans / all);
    const double begin =
        std::clamp(centre_of(run, end_s) - length / 2, from_s, std::max(from_s, end_s - length));
    return {begin, begin + length};
}

/// One path per kind: rectangles one after the other.
void add_lanes(Picture& picture, const RowFrame& frame, const SimulationResult& run) {
    std::map<int, std::string> paths;
    for (const LaneSpan& span : run.lanes) {
        const double begin = frame.x(std::max(span.begin_s, frame.x.from));
        const double end = frame.x(std::min(span.end_s, frame.x.to));
        const auto row = static_cast<std::size_t>(span.worker);
        if (end > begin && row < frame.workers.size()) {
            paths[static_cast<int>(span.kind)] +=
                box_path(begin, end, frame.top_of(row), frame.heights.bar);
        }
    }
    for (const auto& [kind, path] : paths) {
        picture.add(fmt::format("<path class=\"k{}\" d=\"{}\"><title>{}</title></path>", kind, path,
                                kKinds.at(static_cast<std::size_t>(kind))));
    }
}

/// @param letter  of the classes: "k0", "k1" ...
std::string numbered_legend(char letter, const std::vector<std::string_view>& names,
                            const std::string& pictures) {
    std::vector<std::pair<std::string, std::string>> squares;
    for (const std::string_view name : names) {
        squares.emplace_back(fmt::format("{}{}", letter, squares.size()), name);
    }
    return legend_of(std::move(squares), pictures);
}

}  // namespace

std::string draw_lanes(const PageData& data, std::size_t mode, std::size_t pattern) {
    const SimulationResult& run = data.pictures[mode][pattern].first;
    if (run.lanes.empty()) {
        return "";
    }
    const std::string& name = data.results.modes[mode].name;
    const auto [begin_s, end_s] = window_of(run);
    const RowFrame frame = frame_of(run, kLaneRows, begin_s, end_s);
    Picture picture =
        framed(frame, fmt::format("lane{}-{}", mode, pattern),
               fmt::format("Workers under {}, {}", name, data.results.patterns[pattern]),
               "A row per worker, coloured by what it does. The tables of demands have the "
               "shares of time spent waiting.",
               name);
    add_lanes(picture, frame, run);
    if (frame.has_strip) {
        add_plans(picture, frame, plan_stretches(run));
    }
    add_changes(picture, frame, run.switches, !frame.has_strip);
    return picture.done();
}

std::string draw_decisions(const PageData& data, std::size_t mode, std::size_t pattern) {
    const SimulationResult& run = data.pictures[mode][pattern].first;
    if (run.decisions.empty()) {
        return "";
    }
    const std::string& name = data.results.modes[mode].name;
    const RowFrame frame = frame_of(run, kEpisodeRows, 0, run.virtual_s);
    Picture picture =
        framed(frame, fmt::format("plan{}-{}", mode, pattern),
               fmt::format("Decisions of {}, {}", name, data.results.patterns[pattern]),
               "A row per worker with the times at which it was a straggler; below them the "
               "plans in force. The table of decisions has the same in words.",
               fmt::format("{}: stragglers and plans, the whole run", name));
    add_episodes(picture, frame, run.stragglers, kEpisodeRows.bar);
    add_plans(picture, frame, plan_stretches(run));
    return picture.done();
}

std::string square_legend(const std::vector<std::pair<std::string, std::string>>& squares) {
    std::string text = "<ul class=\"legend\">";
    for (const auto& [kind, name] : squares) {
        text += fmt::format(
            "<li><svg class=\"swatch\" viewBox=\"0 0 22 10\" aria-hidden=\"true\">"
            "<rect class=\"{}\" width=\"22\" height=\"10\"/></svg>{}</li>",
            kind, escaped(name));
    }
    return text + "</ul>\n";
}

std::string legend_of(std::vector<std::pair<std::string, std::string>> squares,
                      const std::string& pictures) {
    std::erase_if(squares, [&pictures](const auto& square) {
        return pictures.find("class=\"" + square.first + "\"") == std::string::npos;
    });
    return squares.empty() ? "" : square_legend(squares);
}

std::string lane_legend(const std::string& pictures) {
    return numbered_legend('k', {kKinds.begin(), kKinds.end()}, pictures);
}

std::string cause_legend(const std::string& pictures) {
    const auto& causes = kWords<StragglerCause>;
    return numbered_legend('e', {causes.begin(), causes.end()}, pictures);
}

}  // namespace cohort
