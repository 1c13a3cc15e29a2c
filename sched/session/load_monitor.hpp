#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/sched/load_view.hpp"
#include "cohort/sched/policy.hpp"
#include "cohort/sched/reports.hpp"
#include "cohort/sched/straggler_news.hpp"

namespace cohort {

/// Where the load figures of a run come together: history, stragglers, predictions, what gradients
/// tell. The same in real and virtual runs. Pure; one thread.
class LoadMonitor {
public:
    /// Lag from which on a worker is a straggler, reference batches. Among equals asynchronous
    /// pushes lag by nearly one.
    static constexpr double kLagBound = 2;

    /// @param predictor  what forecasts come from; null: none are made
    LoadMonitor(int workers, std::int64_t batch, double lag_bound,
                std::unique_ptr<Predictor> predictor);
    LoadMonitor(const LoadMonitor&) = delete;
    LoadMonitor& operator=(const LoadMonitor&) = delete;
    ~LoadMonitor() = default;

    /// Forecasts come from this one, which learns first what has been recorded.
    void predict_with(std::unique_ptr<Predictor> predictor);
    [[nodiscard]] bool predicts() const noexcept { return predictor_ != nullptr; }
    /// The predictor goes on with another model, if it uses one.
    void renew(const std::shared_ptr<const LstmNetwork>& network);

    /// A worker begins an iteration, in place of the one it was at, if any. @param now_s  of
    /// training
    void begun(int worker, double now_s, std::int64_t samples) {
        running_.begun(worker, now_s, samples);
    }
    /// It is at none, and its push did not come.
    void stopped(int worker) { running_.stopped(worker); }
    /// A record that came with a push: the worker is at no iteration.
    void timed(const IterationRecord& record);
    /// A worker is gone, or begins anew: what was recorded of it counts no more.
    void lost(int worker);
    /// Times to come are others for all workers: those recorded count no more.
    void forget_times();
    /// An update. @param loss  mean over its samples, nats
    void updated(double loss);
    /// New numbers; those that are 0 stay as they were.
    void measured(const GradientFacts& facts);

    /// Makes a forecast when there is enough news for one.
    [[nodiscard]] const LoadView& view();
    [[nodiscard]] const TelemetryHistory& history() const noexcept { return history_; }
    [[nodiscard]] const ActiveIterations& running() const noexcept { return running_; }
    [[nodiscard]] const StragglerDetector& stragglers() const noexcept { return stragglers_; }
    /// What there is to tell of them.
    [[nodiscard]] StragglerNews& straggler_news() noexcept { return straggler_news_; }
    /// The run is over, for those who are slow still.
    void ended();
    /// One per horizon; none while there are no forecasts.
    [[nodiscard]] std::vector<PredictorScore> scores() const;
    [[nodiscard]] const GradientFacts& gradients() const noexcept { return view_.gradients; }

private:
    TelemetryHistory history_;
    StragglerDetector stragglers_;
    StragglerNews straggler_news_;
    ActiveIterations running_;
    std::unique_ptr<Predictor> predictor_;
    std::optional<PredictorScores> scores_;
    std::optional<std::int64_t> forecast_at_;  ///< records then
    LoadView view_;
};

/// What each worker has done and how fast: for reports, and for those who choose modes. Pure.
class WorkerStats {
public:
    /// @param batch samples to which own times are scaled
    WorkerStats(int workers, std::int64_t batch);

    /// A push has arrived. @param own_s  the worker's own time for it (WorkerReport)
    void timed(int worker, std::int64_t samples, double own_s);
    void settled(const PushOutcome& outcome);
    /// A push that counts as applied counts as lost.
    void undone(int worker, std::int64_t samples);
    void lost(int worker);
    void joined(int worker);

    /// By worker.
    [[nodiscard]] const std::vector<WorkerReport>& reports() const noexcept { return reports_; }
    /// Accepted, of all workers.
    [[nodiscard]] std::int64_t pushes() const noexcept { return pushes_; }
    /// Longest own time of the live workers, seconds; 0: none is known.
    [[nodiscard]] double slowest_own_s() const noexcept;

private:
    std::int64_t batch_;
    std::int64_t pushes_ = 0;
    std::vector<WorkerReport> reports_;
    std::vector<OwnTime> times_;
};

}  // namespace cohort
