#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cohort/sched/chooser.hpp"
#include "report/page/page_data.hpp"
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
constexpr int kMostRows = 16;            ///< the first workers
constexpr std::size_t kMostSpans = 420;  ///< that are drawn

constexpr std::array<const char*, 7> kKinds{"delay", "input", "compute", "push",
                                            "wait",  "pull",  "lost"};

/// Heights of the rows and of the strip.
struct RunRows {
    double row;
    double bar;         ///< of a row's height
    double name;        ///< of a row's height: baseline of the worker's name
    double strip;       ///< bar of the plans
    double strip_name;  ///< of that: baseline of its name
    double strip_row;   ///< with the gap below
};
constexpr RunRows kLaneRows{
    .row = 15, .bar = 11, .name = 9, .strip = 11, .strip_name = 9, .strip_row = 15};
constexpr RunRows kEpisodeRows{
    .row = 13, .bar = 9, .name = 9, .strip = 14, .strip_name = 11, .strip_row = 17};

/// A stretch of a run under one plan that a chooser decided on.
struct PlanStretch {
    double begin_s = 0;
    double end_s = 0;
    std::string plan;                          ///< "static:7"
    const DecisionRecord* decision = nullptr;  ///< null: before the first one
};

/// The stretches of a run with decisions; none without decisions. Between two stretches a plan
/// without a recorded decision may have been in force.
std::vector<PlanStretch> plan_stretches(const SimulationResult& run) {
    std::vector<PlanStretch> stretches;
    if (!run.decisions.empty()) {
        const DecisionRecord& first = run.decisions.front();
        stretches.push_back({.end_s = first.seconds, .plan = plan_in_label(first.from)});
    }
    for (const DecisionRecord& decision : run.decisions) {
        stretches.push_back({.begin_s = decision.seconds,
                             .end_s = decision.seconds + decision.held_s,
                             .plan = plan_in_label(decision.to),
                             .decision = &decision});
    }
    return stretches;
}

/// The places in a picture of a run between two moments.
struct RunFrame {
    RunFrame(const SimulationResult& of, const RunRows& heights, double begin_s, double end_s)
        : run(of),
          rows(heights),
          plans(plan_stretches(of)),
          workers(std::min(kMostRows, static_cast<int>(of.workers.size()))),
          bottom(top_of(workers) + (plans.empty() ? 0 : heights.strip_row)),
          x{.from = begin_s, .to = end_s, .begin = kRunLeft, .end = kRunWidth - kRunRight} {}

    [[nodiscard]] double top_of(int worker) const { return kRunTop + worker * rows.row; }

    const SimulationResult& run;
    const RunRows& rows;
    std::vector<PlanStretch> plans;
    int workers;  ///< that have a row; the strip follows them
    double bottom;
    Scale x;
};

/// A picture with the axis of time and the names of the rows.
Picture framed(const RunFrame& frame, const std::string& id, std::string_view title,
               std::string_view description, std::string_view heading) {
    constexpr int kTicks = 8;
    Picture picture(id, kRunWidth, frame.bottom + kRunBottom, title, description);
    picture.x_axis(frame.x, frame.bottom, frame.bottom - kRunTop,
                   round_ticks(frame.x.from, frame.x.to, kTicks), "virtual time, s");
    picture.text(0, kRunTop - 7, "start", heading, "what");
    for (int worker = 0; worker < frame.workers; ++worker) {
        picture.text(kRunLeft - 4, frame.top_of(worker) + frame.rows.name, "end",
                     fmt::format("worker {}", worker));
    }
    return picture;
}

/// "static:7; why; 5,000 samples/s predicted, 4,800 measured over 3.2 s; next best asgd".
std::string words_of(const DecisionRecord& decision) {
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

/// Draws the plans as a bar, coloured in the order of first appearance in the run, named where
/// there is room, with words_of() as tooltips.
void add_plans(Picture& picture, const RunFrame& frame) {
    constexpr std::size_t kColours = 7;
    constexpr double kLetter = 5.6;  // width, about
    constexpr double kBaseline = 3;
    const double top = frame.top_of(frame.workers);
    picture.text(kRunLeft - 4, top + frame.rows.strip_name, "end", "plan", "what");
    std::map<std::string, std::size_t> colours;
    for (const PlanStretch& stretch : frame.plans) {
        const auto colour = colours.emplace(stretch.plan, colours.size() % kColours).first->second;
        const double begin = frame.x(std::max(stretch.begin_s, frame.x.from));
        const double end = frame.x(std::min(stretch.end_s, frame.x.to));
        if (end <= begin) {
            continue;
        }
        const std::string words = stretch.decision == nullptr
                                      ? fmt::format("{} at the start", stretch.plan)
                                      : words_of(*stretch.decision);
        picture.add(
            fmt::format("<g class=\"plan c{}\"><title>{}</title><rect x=\"{}\" y=\"{}\" "
                        "width=\"{:.1f}\" height=\"{}\"/>",
                        colour, escaped(words), place(begin), place(top),
                        std::max(0.3, end - begin), place(frame.rows.strip)));
        if (end - begin > kLetter * static_cast<double>(stretch.plan.size() + 1)) {
            picture.text((begin + end) / 2, top + frame.rows.strip - kBaseline, "middle",
                         stretch.plan, "what");
        }
        picture.add("</g>");
    }
}

/// When a change of mode was in force.
double time_of(const SwitchReport& change) {
    return change.train_seconds + change.in_force_s.value_or(0);
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
void add_lanes(Picture& picture, const RunFrame& frame) {
    std::map<int, std::string> paths;
    for (const LaneSpan& span : frame.run.lanes) {
        const double begin = frame.x(std::max(span.begin_s, frame.x.from));
        const double end = frame.x(std::min(span.end_s, frame.x.to));
        if (end > begin && span.worker < frame.workers) {
            paths[static_cast<int>(span.kind)] +=
                fmt::format("M{:.1f} {}h{:.1f}v{}H{:.1f}z", begin, place(frame.top_of(span.worker)),
                            std::max(0.3, end - begin), place(frame.rows.bar), begin);
        }
    }
    for (const auto& [kind, path] : paths) {
        picture.add(fmt::format("<path class=\"k{}\" d=\"{}\"><title>{}</title></path>", kind, path,
                                kKinds.at(static_cast<std::size_t>(kind))));
    }
}

/// Marks changes of the plan, with labels above, unless the strip of plans has them.
void add_changes(Picture& picture, const RunFrame& frame) {
    for (const SwitchReport& change : frame.run.switches) {
        const double time_s = time_of(change);
        if (time_s < frame.x.from || time_s > frame.x.to) {
            continue;
        }
        const std::string what =
            change.same_mode() ? change.to + " arranged anew" : change.from + " to " + change.to;
        const double at = frame.x(time_s);
        picture.add(
            fmt::format("<g><title>{}</title>",
                        escaped(fmt::format("{:.2f} s: {}; {}", time_s, what, change.why))));
        picture.line(at, kRunTop - 4, at, frame.bottom, "change");
        if (frame.plans.empty()) {
            const bool left = at > kRunWidth / 2;
            picture.text(at + (left ? -3 : 3), kRunTop - 7, left ? "end" : "start", what, "what");
        }
        picture.add("</g>");
    }
}

void add_episodes(Picture& picture, const RunFrame& frame) {
    constexpr double kLeastWidth = 0.5;
    for (const StragglerEpisode& episode : frame.run.stragglers) {
        if (episode.worker >= frame.workers) {
            continue;
        }
        const double begin = frame.x(std::max(0.0, episode.begin_s));
        const double width =
            std::max(kLeastWidth, frame.x(std::min(episode.end_s, frame.x.to)) - begin);
        const std::string what =
            fmt::format("worker {}, {:.2f} to {:.2f} s: {:.2f} times as long as the fastest{}; {}",
                        episode.worker, episode.begin_s, episode.end_s, episode.slowdown,
                        episode.by_lag ? ", seen by its lag" : "", word_of(episode.cause));
        picture.add(fmt::format(
            "<rect class=\"e{}\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" "
            "height=\"{}\"><title>{}</title></rect>",
            static_cast<int>(episode.cause), place(begin), place(frame.top_of(episode.worker)),
            width, place(frame.rows.bar), escaped(what)));
    }
}

/// @param letter  of the classes: "k0", "k1" ...
std::string numbered_legend(char letter, const std::vector<std::string_view>& names) {
    std::vector<std::pair<std::string, std::string>> squares;
    for (const std::string_view name : names) {
        squares.emplace_back(fmt::format("{}{}", letter, squares.size()), name);
    }
    return square_legend(squares);
}

}  // namespace

std::string draw_lanes(const PageData& data, std::size_t mode, std::size_t pattern) {
    const SimulationResult& run = data.pictures[mode][pattern].first;
    if (run.lanes.empty()) {
        return "";
    }
    const std::string& name = data.results.modes[mode].name;
    const auto [begin_s, end_s] = window_of(run);
    const RunFrame frame(run, kLaneRows, begin_s, end_s);
    Picture picture =
        framed(frame, fmt::format("lane{}-{}", mode, pattern),
               fmt::format("Workers under {}, {}", name, data.results.patterns[pattern]),
               "A row per worker, coloured by what it does. The tables of demands have the "
               "shares of time spent waiting.",
               name);
    add_lanes(picture, frame);
    if (!frame.plans.empty()) {
        add_plans(picture, frame);
    }
    add_changes(picture, frame);
    return picture.done();
}

std::string draw_decisions(const PageData& data, std::size_t mode, std::size_t pattern) {
    const SimulationResult& run = data.pictures[mode][pattern].first;
    if (run.decisions.empty()) {
        return "";
    }
    const std::string& name = data.results.modes[mode].name;
    const RunFrame frame(run, kEpisodeRows, 0, run.virtual_s);
    Picture picture =
        framed(frame, fmt::format("plan{}-{}", mode, pattern),
               fmt::format("Decisions of {}, {}", name, data.results.patterns[pattern]),
               "A row per worker with the times at which it was a straggler; below them the "
               "plans in force. The table of decisions has the same in words.",
               fmt::format("{}: stragglers and plans, the whole run", name));
    add_episodes(picture, frame);
    add_plans(picture, frame);
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

std::string lane_legend() {
    return numbered_legend('k', {kKinds.begin(), kKinds.end()});
}

std::string cause_legend() {
    const auto& causes = kWords<StragglerCause>;
    return numbered_legend('e', {causes.begin(), causes.end()});
}

}  // namespace cohort
