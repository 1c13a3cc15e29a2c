#include "sim/job/virtual_evaluations.hpp"

namespace cohort {
namespace {

/// Of accuracy: from here to the target the whole test set decides.
constexpr double kNearTarget = 0.01;

}  // namespace

bool VirtualEvaluations::updated(double now_s, std::int64_t samples_applied) {
    updated_s_ = now_s;
    samples_applied_ = samples_applied;
    last_.reset();
    const std::int64_t every = spec_.eval_every_samples;
    if (every <= 0 || samples_applied < next_) {
        return false;
    }
    next_ = (samples_applied / every + 1) * every;
    const double target = spec_.target_accuracy;
    if (spec_.eval_samples > 0) {
        const double first = evaluate(spec_.eval_samples);
        if (target <= 0 || first < target - kNearTarget) {
            return false;
        }
    }
    const double decides = evaluate(0);
    return target > 0 && decides >= target;
}

/// The time to the target is the time of the first update that reaches it on the whole test set,
/// also when that is found out at the end.
/// @return the accuracy that is to reach the target
double VirtualEvaluations::evaluate(std::int64_t samples) {
    const Learner::Accuracy found = learner_.evaluate(samples);
    EvaluationPoint point{.virtual_s = updated_s_,
                          .samples_applied = samples_applied_,
                          .accuracy = found.accuracy,
                          .loss = found.loss,
                          .test_samples = found.samples};
    log_.add(EventLog::Kind::kEvaluation, updated_s_, found.accuracy, found.loss, found.samples);
    if (spec_.eval_average) {
        const Learner::Accuracy mean = learner_.evaluate_average(samples);
        point.average_accuracy = mean.accuracy;
        point.average_loss = mean.loss;
    }
    points_.push_back(point);
    const double decides =
        spec_.target_on_average ? point.average_accuracy.value_or(0) : found.accuracy;
    if (samples > 0) {
        return decides;
    }
    last_ = found;
    if (spec_.target_accuracy > 0 && decides >= spec_.target_accuracy && !tta_s_) {
        tta_s_ = updated_s_;
        samples_to_target_ = samples_applied_;
    }
    return decides;
}

void VirtualEvaluations::end() {
    if (spec_.eval_every_samples > 0 && !last_) {
        evaluate(0);
    }
}

void VirtualEvaluations::report(SimulationResult& result) const {
    result.tta_virtual_s = tta_s_;
    result.samples_to_target = samples_to_target_;
    if (last_) {
        result.accuracy = last_->accuracy;
        result.loss = last_->loss;
    }
    result.evaluations = points_;
}

}  // namespace cohort
