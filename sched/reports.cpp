#include "cohort/sched/reports.hpp"

#include <fmt/format.h>

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
    std::string text = change.same_mode()
                           ? fmt::format("mode {} arranges its workers anew", change.to)
                           : fmt::format("mode {} -> {}", change.from, change.to);
    text += fmt::format(" after {} samples ({})", change.samples, change.why);
    if (!change.in_force_s) {
        return text + ": overtaken by the next one";
    }
    text += fmt::format(": in force after {:.3f} s", *change.in_force_s);
    if (change.first_update_s) {
        text += fmt::format(", first update after {:.3f} s (slowest worker's own time {:.3f} s)",
                            *change.first_update_s, change.slowest_own_s);
    }
    return text;
}

}  // namespace cohort
