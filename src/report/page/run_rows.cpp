#include "report/page/run_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/page/page_data.hpp"

namespace cohort {
namespace {

constexpr double kNameGap = 4;
constexpr double kLeastWidth = 0.3;

}  // namespace

std::string box_path(double begin, double end, double top, double height) {
    return fmt::format("M{:.1f} {}h{:.1f}v{}H{:.1f}z", begin, place(top),
                       std::max(kLeastWidth, end - begin), place(height), begin);
}

std::string words_of(const StragglerEpisode& episode) {
    return fmt::format("{:.2f} to {:.2f} s: {:.2f} times as long as the fastest{}; {}",
                       episode.begin_s, episode.end_s, episode.slowdown,
                       episode.by_lag ? ", seen by its lag" : "", word_of(episode.cause));
}

double time_of(const SwitchReport& change) {
    return change.train_seconds + change.in_force_s.value_or(0);
}

std::string words_of(const SwitchReport& change) {
    return change.same_mode() ? change.to + " regrouped" : change.from + " to " + change.to;
}

void add_row_names(Picture& picture, const RowFrame& frame) {
    for (std::size_t row = 0; row < frame.workers.size(); ++row) {
        picture.text(frame.x.begin - kNameGap, frame.top_of(row) + frame.heights.name, "end",
                     fmt::format("worker {}", frame.workers[row]));
    }
}

void add_plans(Picture& picture, const RowFrame& frame, std::span<const PlanStretch> plans) {
    constexpr std::size_t kColours = 7;
    constexpr double kLetter = 5.6;  // width, about
    constexpr double kBaseline = 3;
    const double top = frame.strip_top();
    picture.text(frame.x.begin - kNameGap, top + frame.heights.strip_name, "end", "plan", "what");
    std::map<std::string, std::size_t> colours;
    for (const PlanStretch& stretch : plans) {
        const auto colour = colours.emplace(stretch.plan, colours.size() % kColours).first->second;
        const double begin = frame.x(std::max(stretch.begin_s, frame.x.from));
        const double end = frame.x(std::min(stretch.end_s, frame.x.to));
        if (end <= begin) {
            continue;
        }
        picture.add(
            fmt::format("<g class=\"plan c{}\"><title>{}</title><rect x=\"{}\" y=\"{}\" "
                        "width=\"{:.1f}\" height=\"{}\"/>",
                        colour, escaped(stretch.words), place(begin), place(top),
                        std::max(kLeastWidth, end - begin), place(frame.heights.strip)));
        if (end - begin > kLetter * static_cast<double>(stretch.plan.size() + 1)) {
            picture.text((begin + end) / 2, top + frame.heights.strip - kBaseline, "middle",
                         stretch.plan, "what");
        }
        picture.add("</g>");
    }
}

void add_changes(Picture& picture, const RowFrame& frame, std::span<const SwitchReport> changes,
                 bool named) {
    for (const SwitchReport& change : changes) {
        const double time_s = time_of(change);
        if (time_s < frame.x.from || time_s > frame.x.to) {
            continue;
        }
        const std::string what = words_of(change);
        const double at = frame.x(time_s);
        picture.add(
            fmt::format("<g><title>{}</title>",
                        escaped(fmt::format("{:.2f} s: {}; {}", time_s, what, change.why))));
        picture.line(at, frame.top - 4, at, frame.bottom(), "change");
        if (named) {
            const bool left = at > (frame.x.begin + frame.x.end) / 2;
            picture.text(at + (left ? -3 : 3), frame.top - 7, left ? "end" : "start", what, "what");
        }
        picture.add("</g>");
    }
}

void add_episodes(Picture& picture, const RowFrame& frame,
                  std::span<const StragglerEpisode> episodes, double height) {
    constexpr double kLeastEpisode = 0.5;
    for (const StragglerEpisode& episode : episodes) {
        const auto row = std::ranges::find(frame.workers, episode.worker);
        if (row == frame.workers.end()) {
            continue;
        }
        const double begin = frame.x(std::max(0.0, episode.begin_s));
        const double width =
            std::max(kLeastEpisode, frame.x(std::min(episode.end_s, frame.x.to)) - begin);
        picture.add(
            fmt::format("<rect class=\"e{}\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" "
                        "height=\"{}\"><title>{}</title></rect>",
                        static_cast<int>(episode.cause), place(begin),
                        place(frame.top_of(static_cast<std::size_t>(row - frame.workers.begin()))),
                        width, place(height),
                        escaped(fmt::format("worker {}, {}", episode.worker, words_of(episode)))));
    }
}

}  // namespace cohort
