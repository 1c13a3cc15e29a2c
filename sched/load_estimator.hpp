#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cohort/sched/load_desk.hpp"
#include "plan_space.hpp"
#include "worker_costs.hpp"

namespace cohort {

/// What workers will need, from records and forecasts.
///
/// Records say how long input, computing and transfers take now (WorkerCosts). A forecast says by
/// what factor own times will change; it counts as long as it is about as good as taking the
/// present for the future, so that a predictor which errs is not followed. When transfers of nearly
/// all workers take longer than they used to, the servers' network is what is short: what is above
/// the usual is taken from the workers' own transfers and counted alike for all, under any plan
/// (LoadEstimate::crowd_s). Pure.
class LoadEstimator {
public:
    /// @param pull_bytes  of the parameters; 0: not known
    LoadEstimator(int workers, std::int64_t batch, double pull_bytes);

    /// Takes the records that are new, and the forecast made with them. @param live  workers
    void learn(const LoadView& view, const std::vector<int>& live);
    /// What was recorded of it counts no more.
    void forget(int worker);

    /// Enough is known of enough workers.
    [[nodiscard]] bool ready(const std::vector<int>& live, const TelemetryHistory& history) const;
    /// @param horizon  iterations ahead, 1..kMaxHorizon  @param usual  mean of the last dozens of
    /// iterations in place of what comes
    [[nodiscard]] LoadEstimate estimate(const LoadView& view, const std::vector<int>& live,
                                        int horizon, bool usual) const;
    /// The same estimate where forecasts are not lower than the present.
    [[nodiscard]] LoadEstimate usual(LoadEstimate load, const std::vector<int>& live) const;
    /// Mean relative distance of own times from what they are on average.
    [[nodiscard]] double noise(const std::vector<int>& live) const;
    /// The same of a worker's; and whether enough is known of it to say when it is late.
    [[nodiscard]] double noise(int worker) const { return costs_.noise(worker); }
    [[nodiscard]] bool sure(int worker, const TelemetryHistory& history) const;
    [[nodiscard]] std::int64_t records() const noexcept { return costs_.records(); }

private:
    struct Row {
        double forecast_s = 0;     ///< of the next iteration
        double level_s = 0;        ///< the last one's, for comparison
        double steady_s = 0;       ///< mean since own times changed by more than noise
        int steady = 0;            ///< records in it
        double usual_s = 0;        ///< mean of some dozens, whatever changed
        double first_share_s = 0;  ///< of it, what the first iteration still adds
        double warmth = 0;         ///< second iteration's time over the first one's; 0: none yet
        std::int64_t iteration = 0;
    };
    /// Forecasts are followed.
    [[nodiscard]] bool trusts_forecasts() const noexcept;
    void warm_up(const std::vector<int>& live);
    void judge(Row& row, double own_s);
    void settle(Row& row, int worker, double own_s) const;
    [[nodiscard]] double factor(int worker, const Forecast& forecast, int horizon,
                                bool usual) const;
    void share_contention(LoadEstimate& load, const std::vector<int>& live) const;

    std::int64_t batch_;
    WorkerCosts costs_;
    std::vector<Row> rows_;
    std::optional<double> cold_;  ///< by what a first iteration is multiplied; none: not known yet
    double forecast_error_ = 0;   ///< mean relative, recent
    double level_error_ = 0;
};

}  // namespace cohort
