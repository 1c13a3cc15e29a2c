#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cohort/sched/chooser_options.hpp"
#include "cohort/sched/efficiency.hpp"
#include "cohort/sched/noise_scale.hpp"
#include "cohort/sched/predictor.hpp"
#include "cohort/sched/stragglers.hpp"
#include "cohort/sched/telemetry.hpp"

namespace cohort {

/// What was measured of gradients; 0: not known.
struct GradientFacts {
    double noise_scale = 0;  ///< phi, samples
    double curvature = 0;    ///< along the step
    double agreement = 0;    ///< of stale with fresh gradients
    double loss = 0;         ///< of training, nats, smoothed
};

/// What those who choose modes look at, besides Telemetry's counts. Lives until the desk is told
/// of something again.
struct LoadView {
    const TelemetryHistory* history = nullptr;
    const StragglerDetector* stragglers = nullptr;
    Forecast forecast;
    GradientFacts gradients;
    double lag_limit = 0;     ///< of the guard, reference batches; infinity: none
    SharedCapacity capacity;  ///< as measured
};

/// Where the load figures of a run come together: history, stragglers, predictions, what gradients
/// tell. The same in real and virtual runs. Pure; one thread.
class LoadDesk {
public:
    /// @param predictor  what forecasts come from
    LoadDesk(int workers, std::int64_t batch, double lag_bound,
             std::unique_ptr<Predictor> predictor, const SharedCapacity& capacity, bool guard);

    /// A record that came with a push.
    void timed(const IterationRecord& record);
    void lost(int worker, double now_s);
    void joined(int worker);
    /// An update. @param loss  mean over its samples, nats  @param lag  mean of its pushes
    void updated(double loss, std::int64_t samples, double lag);
    /// New numbers; those that are 0 stay as they were.
    void measured(const GradientFacts& facts);
    void measured(const SharedCapacity& capacity);

    [[nodiscard]] LoadView view() const;
    [[nodiscard]] const TelemetryHistory& history() const noexcept { return history_; }
    [[nodiscard]] std::vector<StragglerDetector::News> take_stragglers() {
        return stragglers_.take_news();
    }
    [[nodiscard]] std::vector<PredictorScore> scores() const { return scores_.scores(); }
    /// The guard's word, once; empty: it has none.
    [[nodiscard]] std::string take_warning() { return guard_.take_reason(); }

private:
    TelemetryHistory history_;
    StragglerDetector stragglers_;
    std::unique_ptr<Predictor> predictor_;
    PredictorScores scores_;
    StalenessGuard guard_;
    bool guarded_;
    GradientFacts gradients_;
    SharedCapacity capacity_;
};

}  // namespace cohort
