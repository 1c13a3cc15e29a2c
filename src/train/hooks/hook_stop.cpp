#include "cohort/train/hooks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/sched/target.hpp"
#include "cohort/train/options.hpp"
#include "core/log.hpp"
#include "core/units.hpp"

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

class TargetHook final : public TrainHook {
public:
    /// Stops a resumed run that had reached its target.
    void on_start(TrainControl& run) override {
        if (has_target(run.options()) && run.progress().tta_seconds) {
            run.request_stop(StopReason::kTarget);
        }
    }

    void on_evaluation(TrainControl& run, const EvaluationReport& evaluation) override {
        if (reaches_target(run.options(), evaluation.accuracy, evaluation.loss)) {
            run.reach_target(evaluation.train_seconds);
            run.request_stop(StopReason::kTarget);
        }
    }
};

/// "worker 0: 2, worker 3: 5"; empty with one worker.
std::string by_worker(const ClusterReport& cluster) {
    std::string text;
    for (std::size_t i = 0; i < cluster.workers.size() && cluster.workers.size() > 1; ++i) {
        constexpr auto kReason = static_cast<std::size_t>(ReturnReason::kNonFinite);
        if (const std::int64_t count = cluster.workers[i].refused.at(kReason); count > 0) {
            text += fmt::format("{}worker {}: {}", text.empty() ? "" : ", ", i, count);
        }
    }
    return text;
}

/// ", each time with 2 train samples of data.h5: 3, 77"; empty when none has failed before.
std::string failed_again(const StepReport& step, const TrainOptions& options) {
    constexpr std::size_t kMost = 8;
    const std::vector<std::int64_t>& all = step.failed_again;
    if (all.empty()) {
        return {};
    }
    const auto shown = std::span(all).first(std::min(all.size(), kMost));
    return fmt::format(", each time with {} of {}: {}{}", counted(all.size(), "train sample"),
                       options.data, fmt::join(shown, ", "), all.size() > kMost ? ", ..." : "");
}

/// Keeps no count of its own, so that a resumed run decides like a run that was never stopped.
class NanGuardHook final : public TrainHook {
public:
    void on_step(TrainControl& run, const StepReport& step) override {
        if (step.applied) {
            return;
        }
        const TrainProgress& progress = run.progress();
        const std::string by = by_worker(run.cluster());
        log_warn("after {} samples: {}; the batch of {} samples is dropped and dealt again{}",
                 progress.samples_applied, step.dropped_because, step.result.samples,
                 by.empty() ? "" : "; so far from " + by);
        const DropRecord& drops = progress.drops;
        if (!drops.diverged(progress.updates)) {
            return;
        }
        const bool samples = !step.failed_again.empty() && step.others_finite;
        fail<NumericalError>(
            {.where = "training",
             .what = fmt::format("{}: {} batches in a row and {} of the last {} had numbers that "
                                 "are not finite ({}{}{}){}",
                                 samples ? "the same samples fail again and again" : "diverged",
                                 drops.in_a_row, drops.in_window(progress.updates),
                                 std::min(drops.steps(progress.updates), DropRecord::kWindow),
                                 step.dropped_because, by.empty() ? "" : "; in all from ", by,
                                 failed_again(step, run.options())),
             .hint = samples ? "to mend or to leave out these samples"
                             : "a lower --lr or a longer --warmup-samples"});
    }
};

}  // namespace

std::unique_ptr<TrainHook> make_stop_hook(std::function<bool()> stop_requested) {
    return std::make_unique<StopHook>(std::move(stop_requested));
}

std::unique_ptr<TrainHook> make_target_hook() {
    return std::make_unique<TargetHook>();
}

std::unique_ptr<TrainHook> make_nan_guard_hook() {
    return std::make_unique<NanGuardHook>();
}

}  // namespace cohort
