#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cohort/train/events.hpp"
#include "train/hooks/step_window.hpp"

namespace cohort {

/// The hooks of a run, told in the order in which they were added, and the windows that its steps
/// are cut into.
class HookList {
public:
    /// @param run  outlives the list
    explicit HookList(TrainControl& run) : run_(run) {}

    void add(std::unique_ptr<TrainHook> hook) { hooks_.push_back(std::move(hook)); }
    /// Calls `event` with every hook.
    template <class Event>
    void tell(const Event& event) {
        for (const auto& hook : hooks_) {
            event(*hook);
        }
    }

    void started() {
        windows_.start(run_);
        tell([this](TrainHook& hook) { hook.on_start(run_); });
    }
    void stepped(const StepReport& step) {
        tell([&](TrainHook& hook) { hook.on_step(run_, step); });
        tell_window(windows_.add(run_, step));
    }
    void evaluated(const EvaluationReport& evaluation) {
        tell_window(windows_.end(run_, evaluation.seconds));
        tell([&](TrainHook& hook) { hook.on_evaluation(run_, evaluation); });
    }
    /// After the last step and evaluation.
    void ended(StopReason reason) {
        tell_window(windows_.end(run_));
        tell([&](TrainHook& hook) { hook.on_end(run_, reason); });
    }

private:
    void tell_window(const std::optional<TrainWindow>& window) {
        if (window) {
            tell([&](TrainHook& hook) { hook.on_window(run_, *window); });
        }
    }

    TrainControl& run_;
    std::vector<std::unique_ptr<TrainHook>> hooks_;
    WindowMeter windows_;
};

}  // namespace cohort
