#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cohort/core/clock.hpp"
#include "cohort/train/hooks.hpp"
#include "cohort/train/metrics_file.hpp"
#include "cohort/train/trainer.hpp"
#include "sched/session/effect_interpreter.hpp"
#include "train/hooks/hook_list.hpp"
#include "train/hooks/record_limit.hpp"
#include "train/run/job_context.hpp"

namespace cohort {

/// Tells hooks, log and metrics.jsonl what happens in a run, and knows how far the run is. The
/// time of training stands still during evaluations that workers take part in.
class RunReporter final : public TrainControl {
public:
    /// parts and environment outlive it. @param stop  what request_stop() does
    RunReporter(const JobContext& parts, const TrainEnvironment& environment,
                std::function<void(StopReason)> stop);

    [[nodiscard]] const TrainProgress& progress() const override { return progress_; }
    [[nodiscard]] MetricsFile& metrics() override { return *metrics_; }
    [[nodiscard]] ClusterReport cluster() const override;
    void request_stop(StopReason reason) override { stop_(reason); }
    void reach_target(double train_seconds) override;

    /// The clock of this part of the run starts.
    void start();
    /// The run goes on from here. @param earlier  progress of the parts before this one
    void resume(const TrainProgress& earlier) { earlier_ = progress_ = earlier; }
    /// The run begins. @param session  outlives it @param position  of metrics.jsonl, bytes
    void begin(TrainingSession& session, const std::string& metrics_file, std::int64_t position,
               const std::string& first_line);
    /// The run ends with an error. @param last_line  of metrics.jsonl
    void failed(const std::string& last_line);
    /// From now on hooks follow the run.
    void make_hooks();
    [[nodiscard]] double seconds_of_training() const;
    /// Brings progress() up to date. @param cpu_seconds  of all roles; none: of this process
    void update_progress(std::optional<double> cpu_seconds = {});

    void updated(const UpdateOrder& update);
    void dropped(const StepReport& step);
    void evaluated(const EvaluationReport& report);
    /// Switches, decisions and measured rates that are complete since the last call.
    void report_modes();
    void report_stragglers();
    [[nodiscard]] HookList& hooks() noexcept { return hooks_; }
    /// The last evaluation.
    [[nodiscard]] const std::optional<EvaluationReport>& test() const noexcept {
        return summary_.test;
    }
    /// What this part of the run did, as far as the session and the clock tell.
    [[nodiscard]] TrainSummary summary() const;

private:
    const TrainEnvironment& environment_;
    std::function<void(StopReason)> stop_;
    TrainingSession* session_ = nullptr;
    TrainProgress progress_;
    TrainProgress earlier_;  ///< of the parts before this one
    Clock::Seconds started_{0};
    double pauses_ = 0;  ///< seconds that training stood still for evaluations, in this part
    double cpu_at_start_ = 0;
    TrainSummary summary_;  ///< switches and the last evaluation
    /// Switches and decisions in the log.
    struct Said {
        std::optional<Clock::Seconds> regrouping;
        RecordLimit lines;
    } said_;
    std::unique_ptr<MetricsFile> metrics_;
    HookList hooks_{*this};
};

}  // namespace cohort
