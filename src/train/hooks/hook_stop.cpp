#include "cohort/train/hooks.hpp"

#include <utility>

namespace cohort {
namespace {

class StopHook final : public TrainHook {
public:
    explicit StopHook(std::function<bool()> requested) : requested_(std::move(requested)) {}

    void on_start(TrainControl& run) override { check(run); }
    void on_step(TrainControl& run, const StepReport& /*step*/) override { check(run); }

private:
    void check(TrainControl& run) const {
        if (requested_()) {
            run.request_stop(StopReason::kSignal);
        }
    }

    std::function<bool()> requested_;
};

}  // namespace

std::unique_ptr<TrainHook> make_stop_hook(std::function<bool()> stop_requested) {
    return std::make_unique<StopHook>(std::move(stop_requested));
}

}  // namespace cohort
