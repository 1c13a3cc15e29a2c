#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cohort/sched/timing.hpp"

namespace cohort {

/// A plan's workers under a virtual clock that counts in ticks, so that times which are equal on
/// paper are equal.
using Ticks = std::int64_t;

/// A plan to be timed, with its workers, renumbered without workers outside the plan.
struct TimingJob {
    SyncPlan plan;
    std::vector<double> own_s;          ///< [workers] seconds
    std::vector<Ticks> own;             ///< [workers]
    std::vector<std::int64_t> batches;  ///< [workers] samples of a push
    std::int64_t reference_batch = 1;
    double tick_s = 1;
    std::int64_t least_pushes = 1024;  ///< least number of pushes of a run

    const TimeDraws* draws = nullptr;   ///< null: times are constant
    int replicate = 0;                  ///< replicate of the draws
    std::vector<Ticks> first;           ///< [workers] time of the first iteration; empty: own
    std::vector<std::size_t> drawn_as;  ///< [workers] index in the draws
    std::size_t drawn_workers = 0;      ///< workers in the draws

    [[nodiscard]] std::size_t workers() const noexcept { return own.size(); }
    /// Pushes after which the throughput is known: as many as there are draws; without draws six of
    /// each worker, at least least_pushes.
    [[nodiscard]] std::int64_t pushes() const noexcept {
        const auto all = static_cast<std::int64_t>(workers());
        return draws != nullptr ? draws->iterations * all : std::max(least_pushes, 6 * all);
    }
    /// Time of a worker's iteration, counted from 0.
    [[nodiscard]] Ticks own_of(std::size_t worker, std::int64_t iteration) const {
        const Ticks mean = iteration == 0 && !first.empty() ? first[worker] : own[worker];
        if (draws == nullptr) {
            return mean;
        }
        const double factor = draws->factor(replicate, iteration, drawn_as[worker], drawn_workers);
        return std::max<Ticks>(1, static_cast<Ticks>(static_cast<double>(mean) * factor));
    }
};

/// Measures a run's throughput: for every worker over whole iterations, so that few iterations are
/// enough, after the first quarter of the run.
class PaceMeter {
public:
    explicit PaceMeter(const TimingJob& job);

    /// A push was applied.
    void applied(std::size_t worker, Ticks now, std::int64_t samples, double lag);
    /// A push, or a part of a mini-batch, was computed in vain.
    void wasted(std::size_t worker, double samples);
    void updated() { ++updates_; }
    /// So many samples wait at the end.
    void unfinished(double samples) { unfinished_ += samples; }
    /// At the end a mini-batch of so many samples is in progress, which counts by its finished
    /// part.
    void unfinished(std::int64_t samples, Ticks begun, Ticks takes, Ticks now) {
        if (now > begun && takes > 0) {
            const double done = static_cast<double>(now - begun) / static_cast<double>(takes);
            unfinished_ += std::min(done, 1.0) * static_cast<double>(samples);
        }
    }
    [[nodiscard]] bool done() const noexcept { return pushes_ >= job_.pushes(); }
    /// With constant times: over whole iterations. With draws: all finished work over the whole
    /// time.
    [[nodiscard]] PlanTiming result(Ticks now) const;

private:
    struct Tally {
        Ticks last = 0;
        std::int64_t pushes = 0;
        std::int64_t samples = 0;
        double lag = 0;         ///< sum of lags
        double square_lag = 0;  ///< sum of squared lags
    };
    struct Row {
        Ticks first = 0;    ///< time of the push before those that `late` counts
        Tally all;          ///< from the start
        Tally late;         ///< after the first quarter, without the first
        bool seen = false;  ///< has had a push or a part of a mini-batch
    };
    struct Pace {
        double samples_s = 0;
        double pushes_s = 0;
        double lag = 0;
        double square_lag = 0;
    };
    /// Sums over workers, each with its pushes per second as weight.
    struct LagSums {
        double pushes_s = 0;
        double lag_s = 0;
        double square_lag_s = 0;
        void add(double worker_pushes_s, double lag, double square_lag) {
            pushes_s += worker_pushes_s;
            lag_s += worker_pushes_s * lag;
            square_lag_s += worker_pushes_s * square_lag;
        }
    };
    [[nodiscard]] Pace pace_of(const Row& row) const;
    void add_whole_iterations(PlanTiming& timing) const;
    void add_all(PlanTiming& timing, Ticks now) const;
    void add_unfinished(PlanTiming& timing, LagSums& sums) const;

    const TimingJob& job_;
    std::vector<Row> rows_;
    std::int64_t pushes_ = 0;  ///< applied or not
    std::int64_t fired_ = 0;   ///< pushes applied
    std::int64_t updates_ = 0;
    double max_lag_ = 0;
    double applied_samples_ = 0;
    double wasted_samples_ = 0;
    double unfinished_ = 0;
    double lags_ = 0;         ///< sum of lags
    double square_lags_ = 0;  ///< sum of squared lags
};

/// Whether a plan applies every push, with its cohort or alone when it is late.
[[nodiscard]] bool applies_all(const SyncPlan& plan);
/// Runs a plan for which applies_all() holds in a small event loop. Ignores the lag rule: exact as
/// long as no push is over its bound.
[[nodiscard]] PlanTiming time_by_loop(const TimingJob& job);

/// Runs any plan by its engine.
[[nodiscard]] PlanTiming time_by_engine(const TimingJob& job);

}  // namespace cohort
