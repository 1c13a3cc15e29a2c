#include "cohort/train/hooks.hpp"
#include "cohort/train/options.hpp"

namespace cohort {
namespace {

class EvaluationHook final : public TrainHook {
public:
    void on_start(TrainControl& run) override { evaluate_if_due(run); }

    void on_step(TrainControl& run, const StepReport& step) override {
        if (step.applied) {
            evaluate_if_due(run);
        }
    }

    void on_evaluation(TrainControl& /*run*/, const EvaluationReport& /*evaluation*/) override {
        evaluated_ = true;
    }

    void on_end(TrainControl& run, StopReason reason) override {
        const bool fresh =
            evaluated_ && run.progress().evaluated_at == run.progress().samples_applied;
        if (reason != StopReason::kSignal && !fresh) {
            run.evaluate();
        }
    }

private:
    static void evaluate_if_due(TrainControl& run) {
        const std::int64_t every = run.options().eval_every_samples > 0
                                       ? run.options().eval_every_samples
                                       : run.epoch_samples();
        const TrainProgress& progress = run.progress();
        if (progress.samples_applied / every > progress.evaluated_at / every) {
            run.evaluate();
        }
    }

    bool evaluated_ = false;
};

}  // namespace

std::unique_ptr<TrainHook> make_evaluation_hook() {
    return std::make_unique<EvaluationHook>();
}

}  // namespace cohort
