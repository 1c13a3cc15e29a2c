#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "page_data.hpp"
#include "plan_strip.hpp"

// A whole run: who was slow when, and which plan was in force.
namespace cohort {
namespace {

constexpr double kWidth = 900;
constexpr double kLeft = 66;
constexpr double kRight = 12;
constexpr double kTop = 22;
constexpr double kBottom = 32;
constexpr double kLane = 13;
constexpr double kBar = 9;
constexpr double kStrip = 14;       ///< height of the plans
constexpr int kMostWorkers = 16;    ///< the first ones
constexpr std::size_t kCauses = 5;  ///< of StragglerCause
constexpr double kLeastWidth = 0.5;

void add_episodes(Picture& picture, const SimulationResult& run, const Scale& x, int workers) {
    for (const StragglerEpisode& episode : run.stragglers) {
        if (episode.worker >= workers) {
            continue;
        }
        const double begin = x(std::max(0.0, episode.begin_s));
        const double width = std::max(kLeastWidth, x(std::min(episode.end_s, x.to)) - begin);
        const std::string what =
            fmt::format("worker {}, {:.2f} to {:.2f} s: {:.2f} times as long as the fastest{}; {}",
                        episode.worker, episode.begin_s, episode.end_s, episode.slowdown,
                        episode.by_lag ? ", seen by its lag" : "", to_string(episode.cause));
        picture.add(
            fmt::format("<rect class=\"e{}\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" "
                        "height=\"{}\"><title>{}</title></rect>",
                        static_cast<int>(episode.cause), place(begin),
                        place(kTop + episode.worker * kLane), width, place(kBar), escaped(what)));
    }
}

}  // namespace

std::string draw_decisions(const PageData& data, std::size_t mode, std::size_t pattern) {
    const SimulationResult& run = data.pictures[mode][pattern].first;
    const std::vector<PlanStretch> stretches = plan_stretches(run);
    if (stretches.empty()) {
        return "";
    }
    const std::string& name = data.results.modes[mode].name;
    const int workers = std::min<int>(kMostWorkers, static_cast<int>(run.workers.size()));
    const double strip = kTop + workers * kLane;
    const double bottom = strip + kStrip + 3;
    const Scale x{.from = 0, .to = run.virtual_s, .begin = kLeft, .end = kWidth - kRight};
    Picture picture(fmt::format("plan{}-{}", mode, pattern), kWidth, bottom + kBottom,
                    fmt::format("Decisions of {}, {}", name, data.results.patterns[pattern]),
                    "A row per worker with the times at which it was a straggler; below them the "
                    "plans in force. The table of decisions has the same in words.");
    constexpr int kTicks = 8;
    picture.x_axis(x, bottom, bottom - kTop, round_ticks(x.from, x.to, kTicks), "virtual time, s");
    picture.text(0, kTop - 7, "start", fmt::format("{}: stragglers and plans, the whole run", name),
                 "what");
    for (int worker = 0; worker < workers; ++worker) {
        picture.text(kLeft - 4, kTop + worker * kLane + kBar, "end",
                     fmt::format("worker {}", worker));
    }
    picture.text(kLeft - 4, strip + kStrip - 3, "end", "plan", "what");
    add_episodes(picture, run, x, workers);
    add_plan_strip(picture, stretches, x, strip, kStrip);
    return picture.done();
}

std::string cause_legend() {
    std::string text = "<ul class=\"legend\">";
    for (std::size_t cause = 0; cause < kCauses; ++cause) {
        text += fmt::format(
            "<li><svg class=\"swatch\" viewBox=\"0 0 22 10\" aria-hidden=\"true\">"
            "<rect class=\"e{}\" width=\"22\" height=\"10\"/></svg>{}</li>",
            cause, to_string(static_cast<StragglerCause>(cause)));
    }
    return text + "</ul>\n";
}

}  // namespace cohort
