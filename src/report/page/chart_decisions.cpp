#include <fmt/format.h>

#include <algorithm>

#include "report/page/page_data.hpp"
#include "report/page/plan_strip.hpp"

// A whole run: stragglers over time, and the plans in force.
namespace cohort {
namespace {

constexpr double kDecisionLane = 13;
constexpr double kDecisionBar = 9;
constexpr double kStrip = 14;  ///< height of the plans
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
                        place(kRunFrame.top + episode.worker * kDecisionLane), width,
                        place(kDecisionBar), escaped(what)));
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
    const int workers = std::min<int>(kRunFrame.most_workers, static_cast<int>(run.workers.size()));
    const double strip = kRunFrame.top + workers * kDecisionLane;
    const double bottom = strip + kStrip + 3;
    const Scale x{.from = 0,
                  .to = run.virtual_s,
                  .begin = kRunFrame.left,
                  .end = kRunFrame.width - kRunFrame.right};
    Picture picture(fmt::format("plan{}-{}", mode, pattern), kRunFrame.width,
                    bottom + kRunFrame.bottom,
                    fmt::format("Decisions of {}, {}", name, data.results.patterns[pattern]),
                    "A row per worker with the times at which it was a straggler; below them the "
                    "plans in force. The table of decisions has the same in words.");
    constexpr int kTicks = 8;
    picture.x_axis(x, bottom, bottom - kRunFrame.top, round_ticks(x.from, x.to, kTicks),
                   "virtual time, s");
    picture.text(0, kRunFrame.top - 7, "start",
                 fmt::format("{}: stragglers and plans, the whole run", name), "what");
    for (int worker = 0; worker < workers; ++worker) {
        picture.text(kRunFrame.left - 4, kRunFrame.top + worker * kDecisionLane + kDecisionBar,
                     "end", fmt::format("worker {}", worker));
    }
    picture.text(kRunFrame.left - 4, strip + kStrip - 3, "end", "plan", "what");
    add_episodes(picture, run, x, workers);
    add_plan_strip(picture, stretches, x, strip, kStrip);
    return picture.done();
}

std::string cause_legend() {
    std::vector<std::string_view> causes;
    for (int cause = 0; cause < kStragglerCauses; ++cause) {
        causes.push_back(to_string(static_cast<StragglerCause>(cause)));
    }
    return swatch_legend('e', causes);
}

}  // namespace cohort
