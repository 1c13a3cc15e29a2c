#include "cohort/train/events.hpp"

#include <algorithm>

namespace cohort {

std::string to_string(StopReason reason) {
    switch (reason) {
        case StopReason::kBudget: return "budget";
        case StopReason::kTarget: return "target";
        case StopReason::kSignal: return "signal";
    }
    return "unknown";
}

void TrainProgress::record_drop() {
    ++batches_dropped;
    ++dropped_in_a_row;
    recent_drops.push_back(steps());
    std::erase_if(recent_drops, [&](std::int64_t at) { return at <= steps() - kDropWindow; });
}

std::int64_t TrainProgress::drops_in_window() const noexcept {
    return std::ranges::count_if(recent_drops,
                                 [&](std::int64_t at) { return at > steps() - kDropWindow; });
}

void TrainHook::on_start(TrainControl& /*run*/) {
}
void TrainHook::on_step(TrainControl& /*run*/, const StepReport& /*step*/) {
}
void TrainHook::on_evaluation(TrainControl& /*run*/, const EvaluationReport& /*evaluation*/) {
}
void TrainHook::on_checkpoint(TrainControl& /*run*/, const CheckpointReport& /*checkpoint*/) {
}
void TrainHook::on_end(TrainControl& /*run*/, StopReason /*reason*/) {
}

}  // namespace cohort
