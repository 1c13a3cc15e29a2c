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

int ClusterReport::live() const noexcept {
    return static_cast<int>(std::ranges::count_if(workers, &WorkerReport::live));
}

WorkerReport ClusterReport::total() const noexcept {
    WorkerReport sum;
    for (const WorkerReport& one : workers) {
        sum.samples += one.samples;
        sum.pushes += one.pushes;
        sum.discounted += one.discounted;
        sum.over_bound += one.over_bound;
        for (std::size_t reason = 0; reason < kReturnReasons; ++reason) {
            sum.refused.at(reason) += one.refused.at(reason);
        }
        sum.lag_sum += one.lag_sum;
        sum.lag_max = std::max(sum.lag_max, one.lag_max);
        sum.lag_updates_sum += one.lag_updates_sum;
        sum.lost += one.lost;
        if (one.live && one.lag >= sum.lag) {
            sum.lag = one.lag;
            sum.own_s = one.own_s;
            sum.last_own_s = one.last_own_s;
        }
    }
    return sum;
}

void TrainHook::on_start(TrainControl& /*run*/) {
}
void TrainHook::on_step(TrainControl& /*run*/, const StepReport& /*step*/) {
}
void TrainHook::on_evaluation(TrainControl& /*run*/, const EvaluationReport& /*evaluation*/) {
}
void TrainHook::on_checkpoint(TrainControl& /*run*/, const CheckpointReport& /*checkpoint*/) {
}
void TrainHook::on_switch(TrainControl& /*run*/, const SwitchReport& /*change*/) {
}
void TrainHook::on_rank(TrainControl& /*run*/, const RankReport& /*rank*/) {
}
void TrainHook::on_push(TrainControl& /*run*/, const PushTimes& /*times*/) {
}
void TrainHook::on_failure(TrainControl& /*run*/) {
}
void TrainHook::on_end(TrainControl& /*run*/, StopReason /*reason*/) {
}

}  // namespace cohort
