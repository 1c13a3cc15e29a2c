#include <fmt/format.h>

#include <deque>

#include "cohort/core/error.hpp"
#include "cohort/core/log.hpp"
#include "cohort/train/hooks.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kMaxInARow = 5;
constexpr std::size_t kWindow = 100;
constexpr int kMaxInWindow = 20;

class NanGuardHook final : public TrainHook {
public:
    void on_step(TrainControl& run, const StepReport& step) override {
        dropped_.push_back(!step.applied);
        in_window_ += step.applied ? 0 : 1;
        if (dropped_.size() > kWindow) {
            in_window_ -= dropped_.front() ? 1 : 0;
            dropped_.pop_front();
        }
        if (step.applied) {
            return;
        }
        log_warn("after {} samples: {}; the batch of {} samples is dropped and will come again",
                 run.progress().samples_applied, step.dropped_because, step.result.samples);
        if (run.progress().dropped_in_a_row >= kMaxInARow || in_window_ >= kMaxInWindow) {
            fail<NumericalError>(
                {.where = "training",
                 .what = fmt::format("diverged: {} batches in a row and {} of the last {} had "
                                     "numbers that are not finite ({})",
                                     run.progress().dropped_in_a_row, in_window_, dropped_.size(),
                                     step.dropped_because),
                 .hint = "a lower --lr or a longer --warmup-samples"});
        }
    }

private:
    std::deque<bool> dropped_;
    int in_window_ = 0;
};

}  // namespace

std::unique_ptr<TrainHook> make_nan_guard_hook() {
    return std::make_unique<NanGuardHook>();
}

}  // namespace cohort
