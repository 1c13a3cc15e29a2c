#include "cohort/train/events.hpp"

namespace cohort {

std::string to_string(StopReason reason) {
    switch (reason) {
        case StopReason::kBudget: return "budget";
        case StopReason::kTarget: return "target";
        case StopReason::kSignal: return "signal";
    }
    return "unknown";
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
