#include "report/page/plan_strip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cohort/sched/chooser.hpp"

namespace cohort {
namespace {

constexpr std::size_t kPlanColours = 7;

/// Colours by plan.
std::map<std::string, std::size_t> colours_of(const std::vector<PlanStretch>& stretches) {
    std::map<std::string, std::size_t> colours;
    for (const PlanStretch& stretch : stretches) {
        colours.emplace(stretch.plan, colours.size() % kPlanColours);
    }
    return colours;
}

}  // namespace

std::string swatch_legend(char letter, const std::vector<std::string_view>& names) {
    std::string text = "<ul class=\"legend\">";
    for (std::size_t i = 0; i < names.size(); ++i) {
        text += fmt::format(
            "<li><svg class=\"swatch\" viewBox=\"0 0 22 10\" aria-hidden=\"true\">"
            "<rect class=\"{}{}\" width=\"22\" height=\"10\"/></svg>{}</li>",
            letter, i, names[i]);
    }
    return text + "</ul>\n";
}

std::vector<PlanStretch> plan_stretches(const SimulationResult& run) {
    std::vector<PlanStretch> stretches;
    if (run.decisions.empty()) {
        return stretches;
    }
    stretches.push_back(
        {.end_s = run.virtual_s, .plan = plan_in_label(run.decisions.front().from)});
    for (const DecisionRecord& decision : run.decisions) {
        if (stretches.size() == 1) {
            stretches.front().end_s = decision.seconds;
        }
        stretches.push_back({.begin_s = decision.seconds,
                             .end_s = decision.seconds + decision.held_s,
                             .plan = plan_in_label(decision.to),
                             .decision = &decision});
    }
    return stretches;
}

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

void add_plan_strip(Picture& picture, const std::vector<PlanStretch>& stretches, const Scale& x,
                    double y, double height) {
    constexpr double kLetter = 5.6;  // width, about
    constexpr double kBaseline = 3;
    const std::map<std::string, std::size_t> colours = colours_of(stretches);
    for (const PlanStretch& stretch : stretches) {
        const double begin = x(std::max(stretch.begin_s, x.from));
        const double end = x(std::min(stretch.end_s, x.to));
        if (end <= begin) {
            continue;
        }
        const std::string words = stretch.decision == nullptr
                                      ? fmt::format("{} at the start", stretch.plan)
                                      : words_of(*stretch.decision);
        picture.add(
            fmt::format("<g class=\"plan c{}\"><title>{}</title><rect x=\"{}\" y=\"{}\" "
                        "width=\"{:.1f}\" height=\"{}\"/>",
                        colours.at(stretch.plan), escaped(words), place(begin), place(y),
                        std::max(0.3, end - begin), place(height)));
        if (end - begin > kLetter * static_cast<double>(stretch.plan.size() + 1)) {
            picture.text((begin + end) / 2, y + height - kBaseline, "middle", stretch.plan, "what");
        }
        picture.add("</g>");
    }
}

}  // namespace cohort
