#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cohort/core/task.hpp"
#include "cohort/model/trainable_model.hpp"
#include "cohort/sched/chooser.hpp"
#include "cohort/sched/drop_record.hpp"
#include "cohort/sched/load_view.hpp"
#include "cohort/sched/plan.hpp"
#include "cohort/sched/rate_regressor.hpp"
#include "cohort/sched/reports.hpp"
#include "cohort/sched/straggler_news.hpp"
#include "cohort/sched/telemetry.hpp"

namespace cohort {

/// Why a run ended.
enum class StopReason { kBudget, kTarget, kSignal };
/// "budget", "target", "signal".
[[nodiscard]] std::string to_string(StopReason reason);

/// Progress of a run. Saved in checkpoints; what determines the next step's numbers and is
/// not a buffer is in this struct or in the lease ledger.
struct TrainProgress {
    std::int64_t samples_applied = 0;
    std::int64_t updates = 0;
    DropRecord drops;
    std::int64_t evaluated_at = 0;      ///< samples_applied at the last evaluation
    double train_seconds = 0;           ///< wall time without evaluation pauses, over all parts
    double wall_seconds = 0;            ///< wall time over all parts of a resumed run
    double cpu_seconds = 0;             ///< process CPU time over all parts
    std::optional<double> tta_seconds;  ///< train_seconds when the target was reached
    auto fields() {
        return std::tie(samples_applied, updates, drops, evaluated_at, train_seconds, wall_seconds,
                        cpu_seconds, tta_seconds);
    }
};

/// One update, or a mini-batch or round that was dropped.
struct StepReport {
    BatchResult result;  ///< sum over its mini-batches
    double learning_rate = 0;
    double gradient_norm = 0;     ///< mean over its mini-batches of the norm of their gradients
    bool applied = false;         ///< false: dropped because loss or gradient was not finite
    std::int64_t epoch = 0;       ///< epoch of its oldest lease
    std::string dropped_because;  ///< empty when applied
    /// Samples of a dropped one that were in one before: ids in the train set, sorted.
    std::vector<std::int64_t> failed_again;
    bool others_finite = false;  ///< mini-batches without them were not dropped meanwhile
    // Of an update:
    std::int64_t version = 0;    ///< of the parameters after it
    std::vector<PushId> pushes;  ///< that it consists of
};

/// Accuracy and loss over the whole test group.
struct EvaluationReport {
    double accuracy = 0;  ///< 0..1; of a regression 0
    double loss = 0;      ///< mean, see Task
    std::int64_t samples = 0;
    Task task = Task::kClassification;  ///< set by evaluate_model
    double seconds = 0;                 ///< pause of the slowest worker; 0 when no worker waited
    std::int64_t samples_applied = 0;   ///< samples applied at the evaluated snapshot
    std::int64_t updates = 0;
    double train_seconds = 0;
};

/// A checkpoint that was written or could not be.
struct CheckpointReport {
    std::string path;
    std::int64_t samples_applied = 0;
    double pause_seconds = 0;  ///< pause of training for the copy in memory
    double write_seconds = 0;  ///< duration of writing in the background
    std::string error;         ///< empty when it was saved
};

/// A worker's load. Means of its newest records, seconds per --batch samples; 0: none.
struct WorkerLoad {
    double own_s = 0;  ///< tau: sum of the following times without wait_s
    double input_s = 0;
    double compute_s = 0;
    double push_s = 0;
    double pull_s = 0;
    double wait_s = 0;
    std::int64_t batch = 0;  ///< samples of the newest mini-batch
    ResourceUse use;
    double telemetry_s = 0;                ///< the worker's time for measuring, per iteration
    std::optional<StragglerEpisode> slow;  ///< set while the worker is a straggler
};
/// Means over the newest records of a worker, eight at most; the resource use is that of the
/// newest.
[[nodiscard]] WorkerLoad load_of(const TelemetryHistory& history, int worker);
/// "tau 0.123 s (input 0.001, compute 0.100, push 0.010, pull 0.012), waits 0.050 s, cpu share 98
/// %", and why it is slow when it is.
[[nodiscard]] std::string describe(const WorkerLoad& load);
/// "cpu x1.80", or "lag" when only its lag is large.
[[nodiscard]] std::string describe(const StragglerEpisode& slow);
/// A sentence for logs.
[[nodiscard]] std::string describe(const StragglerNews::Item& news);

/// State of the cluster.
struct ClusterReport {
    std::string mode;          ///< in force; "lb-bsp (ssgd)" when its plan has a name of its own
    SyncPlan plan = {};        ///< in force
    std::int64_t pending = 0;  ///< pushes that wait for other pushes of their cohort
    std::vector<WorkerReport> workers;
    std::vector<WorkerLoad> loads;  ///< by worker; empty in a deterministic run
    GradientFacts gradients;        ///< measured if the mode needs it

    [[nodiscard]] int live() const noexcept;
    /// Sums over the workers; `lag` and own times are those of the worker with the largest lag.
    [[nodiscard]] WorkerReport total() const noexcept;
};

/// What a run did since the window before: the figures of a `train` line of metrics.jsonl.
struct TrainWindow {
    std::int64_t samples_applied = 0;  ///< at the end of the window, like the next two
    std::int64_t updates = 0;
    double train_s = 0;
    double learning_rate = 0;  ///< of the last update, like the next one
    double gradient_norm = 0;
    double samples_per_s = 0;  ///< applied, over the window without evaluation pauses
    double loss = 0;           ///< mean over the window's samples, see Task
    double accuracy = 0;       ///< 0..1; of a regression 0
    ClusterReport cluster;     ///< at the end of the window
};

/// A worker's rank was lost, or has joined again.
struct RankReport {
    int rank = 0;  ///< in the world
    int worker = 0;
    bool returned = false;
    std::string reason;  ///< with host and pid
    int live = 0;        ///< live workers afterwards
};

struct TrainOptions;
class Clock;
class MetricsFile;

/// A run's interface for its hooks.
class TrainControl {
public:
    /// @param options, clock  outlive it  @param budget_samples  after which the run ends
    TrainControl(const TrainOptions& options, const Clock& clock, std::int64_t budget_samples,
                 std::int64_t epoch_samples, Task task)
        : options_(options),
          clock_(clock),
          budget_samples_(budget_samples),
          epoch_samples_(epoch_samples),
          task_(task) {}
    TrainControl(const TrainControl&) = delete;
    TrainControl& operator=(const TrainControl&) = delete;
    virtual ~TrainControl() = default;

    [[nodiscard]] const TrainOptions& options() const noexcept { return options_; }
    [[nodiscard]] const Clock& clock() const noexcept { return clock_; }
    /// Samples after which the run ends, and those of one epoch.
    [[nodiscard]] std::int64_t budget_samples() const noexcept { return budget_samples_; }
    [[nodiscard]] std::int64_t epoch_samples() const noexcept { return epoch_samples_; }
    /// What is learned, and with that what losses are.
    [[nodiscard]] Task task() const noexcept { return task_; }
    [[nodiscard]] virtual const TrainProgress& progress() const = 0;
    [[nodiscard]] virtual MetricsFile& metrics() = 0;
    [[nodiscard]] virtual ClusterReport cluster() const = 0;

    /// Ends the run after this step; the first reason counts.
    virtual void request_stop(StopReason reason) = 0;
    /// Notes that the target was reached after `train_seconds` of training.
    virtual void reach_target(double train_seconds) = 0;

private:
    const TrainOptions& options_;
    const Clock& clock_;
    std::int64_t budget_samples_;
    std::int64_t epoch_samples_;
    Task task_;
};

/// An observer of a run: metrics, the live line, a guard, ... Called on the coordinator's thread,
/// in the order in which hooks were added. The defaults do nothing.
class TrainHook {
public:
    TrainHook() = default;
    TrainHook(const TrainHook&) = delete;
    TrainHook& operator=(const TrainHook&) = delete;
    virtual ~TrainHook() = default;
    virtual void on_start(TrainControl& /*run*/) {}
    virtual void on_step(TrainControl& /*run*/, const StepReport& /*step*/) {}
    /// Every `log_every_s`, before an evaluation's result, and before on_end(), unless no sample
    /// was applied since the last window.
    virtual void on_window(TrainControl& /*run*/, const TrainWindow& /*window*/) {}
    virtual void on_evaluation(TrainControl& /*run*/, const EvaluationReport& /*evaluation*/) {}
    virtual void on_checkpoint(TrainControl& /*run*/, const CheckpointReport& /*checkpoint*/) {}
    virtual void on_switch(TrainControl& /*run*/, const SwitchReport& /*change*/) {}
    /// A decision of a chooser, once its outcome is known.
    virtual void on_decision(TrainControl& /*run*/, const DecisionRecord& /*decision*/) {}
    /// The rate that a plan achieved over a window.
    virtual void on_rate(TrainControl& /*run*/, const RateWindow& /*window*/) {}
    virtual void on_rank(TrainControl& /*run*/, const RankReport& /*rank*/) {}
    /// A push is complete; its outcome is not known yet.
    virtual void on_push(TrainControl& /*run*/, const IterationRecord& /*record*/) {}
    /// A worker has become slow, or is no longer.
    virtual void on_straggler(TrainControl& /*run*/, const StragglerNews::Item& /*news*/) {}
    /// After the last step and evaluation, before checkpoint, model and summary are written.
    virtual void on_end(TrainControl& /*run*/, StopReason /*reason*/) {}
    /// The run ends because of an error. Must not throw.
    virtual void on_failure(TrainControl& /*run*/) {}
};

}  // namespace cohort
