#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/sched/active_iterations.hpp"
#include "cohort/sched/chooser_options.hpp"
#include "cohort/sched/efficiency.hpp"
#include "cohort/sched/noise_scale.hpp"
#include "cohort/sched/predictor.hpp"
#include "cohort/sched/straggler_news.hpp"
#include "cohort/sched/telemetry.hpp"

namespace cohort {

/// What was measured of gradients; 0: not known.
struct GradientFacts {
    double noise_scale = 0;  ///< phi, samples
    double curvature = 0;    ///< along the step, times learning rate / (1 - momentum)
    double agreement = 0;    ///< of mean gradients a reference batch apart: <G, G'> / |G|^2
    double loss = 0;         ///< of training, nats, smoothed
};

/// What those who choose modes look at, besides Telemetry's counts. Lives until the desk is told
/// of something again.
struct LoadView {
    const TelemetryHistory* history = nullptr;
    const StragglerDetector* stragglers = nullptr;
    const ActiveIterations* running = nullptr;  ///< null: nobody says who is at one
    Forecast forecast;  ///< empty while the mode in charge looks at none, see ModePolicy
    GradientFacts gradients;
};

/// Where the load figures of a run come together: history, stragglers, predictions, what gradients
/// tell. The same in real and virtual runs. Pure; one thread.
class LoadDesk {
public:
    /// Lag from which on a worker is a straggler, reference batches. Among equals asynchronous
    /// pushes lag by nearly one.
    static constexpr double kLagBound = 2;

    /// @param predictor  what forecasts come from; null: none are made
    LoadDesk(int workers, std::int64_t batch, double lag_bound,
             std::unique_ptr<Predictor> predictor);
    LoadDesk(const LoadDesk&) = delete;
    LoadDesk& operator=(const LoadDesk&) = delete;
    ~LoadDesk() = default;

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

}  // namespace cohort
