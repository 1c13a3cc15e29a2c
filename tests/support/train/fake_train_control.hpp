#pragma once

#include <deque>
#include <optional>
#include <string>

#include "cohort/core/clock.hpp"
#include "cohort/train/events.hpp"
#include "cohort/train/metrics_file.hpp"
#include "cohort/train/options.hpp"
#include "train/hooks/step_window.hpp"

namespace cohort {

/// A run without a network: hooks are driven by hand, time is virtual.
class FakeTrainControl final : public TrainControl {
public:
    explicit FakeTrainControl(const std::string& folder, Task task = Task::kClassification)
        : TrainControl(run_options, virtual_clock, 1000, 100, task),
          metrics_file(folder + "/metrics.jsonl", 0) {}

    const TrainProgress& progress() const override { return run_progress; }
    MetricsFile& metrics() override { return metrics_file; }
    ClusterReport cluster() const override { return cluster_report; }
    void request_stop(StopReason reason) override { stop = stop.value_or(reason); }
    void reach_target(double train_seconds) override { run_progress.tta_seconds = train_seconds; }

    /// One iteration of `seconds`: an applied batch of `samples`, all with loss `loss`.
    StepReport step(std::int64_t samples, double seconds, double loss = 1.0) {
        virtual_clock.advance(Clock::Seconds(seconds));
        run_progress.train_seconds += seconds;
        run_progress.samples_applied += samples;
        ++run_progress.updates;
        run_progress.drops.updated();
        StepReport report;
        report.result = {.loss_sum = loss * static_cast<double>(samples),
                         .correct = static_cast<double>(samples / 2),
                         .samples = samples};
        report.learning_rate = 0.1;
        report.applied = true;
        return report;
    }

    StepReport dropped_step(std::int64_t samples) {
        run_progress.drops.dropped(run_progress.updates);
        StepReport report;
        report.result.samples = samples;
        report.dropped_because = "the loss is not finite";
        return report;
    }

    /// Tells the hook of the step, and of the window that it ends, as a run does.
    void tell_step(TrainHook& hook, const StepReport& step) {
        hook.on_step(*this, step);
        tell_window(hook, windows.add(*this, step));
    }
    void tell_evaluation(TrainHook& hook, const EvaluationReport& evaluation) {
        tell_window(hook, windows.end(*this, evaluation.seconds));
        hook.on_evaluation(*this, evaluation);
    }
    void tell_end(TrainHook& hook, StopReason reason) {
        tell_window(hook, windows.end(*this));
        hook.on_end(*this, reason);
    }

    TrainOptions run_options;
    TrainProgress run_progress;
    ClusterReport cluster_report;
    VirtualClock virtual_clock;
    MetricsFile metrics_file;
    WindowMeter windows;
    std::optional<StopReason> stop;

private:
    void tell_window(TrainHook& hook, const std::optional<TrainWindow>& window) {
        if (window) {
            hook.on_window(*this, *window);
        }
    }
};

}  // namespace cohort
