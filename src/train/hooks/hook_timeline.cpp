#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/train/hooks.hpp"
#include "core/log.hpp"
#include "core/scores.hpp"
#include "core/units.hpp"
#include "data/file/text_file.hpp"
#include "records/timeline/run_timeline.hpp"
#include "train/hooks/record_hook.hpp"

namespace cohort {
namespace {

/// The timeline of a real run, from the records that come with the pushes. A record's durations are
/// of the worker's clock; when the push arrived is of the coordinator's. Laid end to end before the
/// arrival they need no clock of another host: a span is late by the time that the message was in
/// flight, at most.
class TimelineHook final : public RecordHook {
public:
    TimelineHook() : RecordHook("--timeline", &TrainOptions::timeline, "the timeline") {}

    void on_start(TrainControl& run) override {
        RecordHook::on_start(run);
        started_ = run.clock().now();
        const std::size_t workers = run.cluster().workers.size();
        arrived_.resize(workers);
        timeline_.emplace(static_cast<int>(workers), 0);
        happened(run, "mode", run.cluster().mode);
    }

    /// With servers computing ends before the push that arrives now. In a ring the record's
    /// exchange ended when the record before it arrived, and computing followed.
    void on_push(TrainControl& run, const IterationRecord& record) override {
        const double now_s = seconds(run);
        std::optional<double>& before = arrived_.at(static_cast<std::size_t>(record.worker));
        if (run.options().arch == Architecture::kServers) {
            lay(record, now_s - record.own_s() - record.wait_s);
        } else if (before) {
            lay(record, *before - record.pull_s - record.wait_s);
        }
        before = now_s;
        timeline_->activity(record.worker, Activity::kPush, std::max(0.0, now_s - record.push_s),
                            now_s);
        timeline_->pushed(
            {.worker = record.worker, .sequence = static_cast<std::uint64_t>(record.iteration)},
            record.version);
    }

    void on_step(TrainControl& run, const StepReport& step) override {
        const double now_s = seconds(run);
        if (!step.applied) {
            happened(run, "dropped", step.dropped_because);
            return;
        }
        const bool ring = run.options().arch == Architecture::kRing;
        const double begun_s = ring ? timeline_->last_sent(step.pushes).value_or(now_s) : now_s;
        timeline_->updated(step.version, begun_s, now_s, step.pushes, step.result.samples);
    }

    void on_evaluation(TrainControl& run, const EvaluationReport& evaluation) override {
        const double now_s = seconds(run);
        timeline_->evaluated(now_s - evaluation.seconds, now_s);
        happened(run, "evaluation",
                 format_scores(run.task(), evaluation.accuracy, evaluation.loss));
    }
    void on_checkpoint(TrainControl& run, const CheckpointReport& checkpoint) override {
        happened(run, "checkpoint", checkpoint.error.empty() ? checkpoint.path : checkpoint.error);
    }
    void on_switch(TrainControl& run, const SwitchReport& change) override {
        happened(run, change.same_mode() ? "regrouping" : "switch", describe(change));
    }
    void on_decision(TrainControl& run, const DecisionRecord& decision) override {
        happened(run, "decision", describe(decision));
    }
    void on_straggler(TrainControl& run, const StragglerNews::Item& news) override {
        happened(run, "straggler", describe(news));
    }
    /// What the worker did before belongs to another incarnation.
    void on_rank(TrainControl& run, const RankReport& rank) override {
        if (rank.worker >= 0) {
            arrived_.at(static_cast<std::size_t>(rank.worker)).reset();
            timeline_->left(rank.worker);
        }
        happened(run, rank.returned ? "joined" : "lost",
                 fmt::format("worker {}: {}", rank.worker, rank.reason));
    }

protected:
    [[nodiscard]] bool any() const override {
        return timeline_ && timeline_->timeline().spans() > 0;
    }
    void write(const std::string& path, const TrainOptions& /*options*/) override {
        replace_text_file(path, timeline_->timeline().json());
        log_info("timeline: {} ({}), for https://ui.perfetto.dev or chrome://tracing", path,
                 counted(timeline_->timeline().spans(), "span"));
    }

private:
    [[nodiscard]] double seconds(const TrainControl& run) const {
        return (run.clock().now() - started_).count();
    }

    void happened(const TrainControl& run, std::string name, std::string detail) {
        timeline_->happened(seconds(run), std::move(name), std::move(detail));
    }

    /// Draws wait, pull, input and compute end to end. A message that came sooner than the one
    /// before it must not cut what was measured: waiting is shortened, then all is later.
    void lay(const IterationRecord& record, double begin_s) {
        const double free_s = std::max(0.0, timeline_->last_end(record.worker).value_or(0));
        const double late_s = std::clamp(free_s - begin_s, 0.0, record.wait_s);
        double at_s = std::max(begin_s + late_s, free_s);
        const auto span = [&](Activity what, double duration_s, Timeline::Figures figures = {}) {
            timeline_->activity(record.worker, what, at_s, at_s + duration_s, std::move(figures));
            at_s += duration_s;
        };
        span(Activity::kWait, record.wait_s - late_s);
        span(Activity::kPull, record.pull_s);
        span(Activity::kInput, record.input_s);
        span(Activity::kCompute, record.compute_s,
             {{"iteration", static_cast<double>(record.iteration)},
              {"samples", static_cast<double>(record.samples)},
              {"version", static_cast<double>(record.version)},
              {"lag", record.lag}});
    }

    Clock::Seconds started_{0};
    std::vector<std::optional<double>> arrived_;  ///< last record, by worker
    std::optional<RunTimeline> timeline_;
};

}  // namespace

std::unique_ptr<TrainHook> make_timeline_hook() {
    return std::make_unique<TimelineHook>();
}

}  // namespace cohort
