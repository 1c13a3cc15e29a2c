#include "cohort/train/hooks.hpp"
#include "cohort/train/options.hpp"

namespace cohort {
namespace {

class TargetHook final : public TrainHook {
public:
    /// Stops a resumed run that had reached its target.
    void on_start(TrainControl& run) override {
        if (run.options().target_accuracy > 0 && run.progress().tta_seconds) {
            run.request_stop(StopReason::kTarget);
        }
    }

    void on_evaluation(TrainControl& run, const EvaluationReport& evaluation) override {
        const double target = run.options().target_accuracy;
        if (target > 0 && evaluation.accuracy >= target) {
            run.reach_target(evaluation.train_seconds);
            run.request_stop(StopReason::kTarget);
        }
    }
};

}  // namespace

std::unique_ptr<TrainHook> make_target_hook() {
    return std::make_unique<TargetHook>();
}

}  // namespace cohort
