#include <fmt/format.h>

#include <algorithm>

#include "cohort/sched/chooser.hpp"
#include "cohort/sched/reports.hpp"

namespace cohort {

std::string chooser_in_label(const std::string& label) {
    const std::size_t bracket = label.find(" (");
    return bracket == std::string::npos ? "" : label.substr(0, bracket);
}

std::string plan_in_label(const std::string& label) {
    const std::size_t bracket = label.find(" (");
    return bracket == std::string::npos ? label
                                        : label.substr(bracket + 2, label.size() - bracket - 3);
}

const Candidate* chosen_candidate(const DecisionRecord& decision) {
    const std::string plan = plan_in_label(decision.to);
    const auto found = std::ranges::find(decision.candidates, plan, &Candidate::plan);
    return found == decision.candidates.end() ? nullptr : &*found;
}

std::string runner_up_of(const DecisionRecord& decision) {
    const Candidate* const chosen = chosen_candidate(decision);
    for (const Candidate& one : decision.candidates) {
        if (chosen == nullptr || one.plan != chosen->plan) {
            return chosen != nullptr && chosen->rate > 0
                       ? fmt::format("{} ({:+.0f} %)", one.plan,
                                     100 * (one.rate / chosen->rate - 1))
                       : one.plan;
        }
    }
    return "";
}

std::string describe(const DecisionRecord& decision) {
    const Candidate* const chosen = chosen_candidate(decision);
    std::string line =
        fmt::format("{}: {} held for {:.1f} s with {:.0f} samples/s", decision.chooser,
                    plan_in_label(decision.to), decision.held_s, decision.measured_samples_s);
    if (chosen != nullptr) {
        line += fmt::format(", {:.0f} predicted", chosen->samples_s);
    }
    return decision.kept ? line + "; " + decision.reason : line;
}

PushOutcome outcome_of(const FiredPush& push) {
    return {.worker = push.ticket.id.worker,
            .samples = push.ticket.samples,
            .lag = push.lag,
            .lag_updates = push.lag_updates,
            .weight = push.weight,
            .over_bound = push.over_bound,
            .returned = std::nullopt};
}

std::string describe(const SwitchReport& change) {
    const std::string chooser = chooser_in_label(change.to);
    const bool chosen = !chooser.empty() && chooser == chooser_in_label(change.from);
    const std::string to = chosen ? plan_in_label(change.to) : change.to;
    const std::string what =
        change.same_mode()
            ? to + " with its workers arranged anew"
            : fmt::format("{} -> {}", chosen ? plan_in_label(change.from) : change.from, to);
    const std::string text =
        chosen
            ? fmt::format("{}: {}; {} after {} samples", chooser, change.why, what, change.samples)
            : fmt::format("mode {} after {} samples ({})", what, change.samples, change.why);
    if (!change.in_force_s) {
        return text + ", overtaken by the next one";
    }
    return change.first_update_s
               ? text + fmt::format(", first update after {:.3f} s", *change.first_update_s)
               : text;
}

}  // namespace cohort
