#include "cohort/sched/reports.hpp"

#include <fmt/format.h>

#include "cohort/sched/chooser.hpp"

namespace cohort {

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
