#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "cohort/sched/timing.hpp"

namespace cohort {

/// A plan's workers under a virtual clock that counts in ticks, so that times which are equal on
/// paper are equal.
using Ticks = std::int64_t;

/// What is timed: workers of the plan, numbered anew without those that are not in it.
struct TimingJob {
    SyncPlan plan;
    std::vector<double> own_s;          ///< [workers] seconds
    std::vector<Ticks> own;             ///< [workers]
    std::vector<std::int64_t> batches;  ///< [workers] samples of a push
    std::int64_t reference_batch = 1;
    double tick_s = 1;
    std::int64_t least_pushes = 1024;  ///< a run has at least

    const TimeDraws* draws = nullptr;   ///< null: times are constant
    int replicate = 0;                  ///< of the draws
    std::vector<Ticks> first;           ///< [workers] of the first iteration; empty: own
    std::vector<std::size_t> drawn_as;  ///< [workers] in the draws
    std::size_t drawn_workers = 0;      ///< there

    [[nodiscard]] std::size_t workers() const noexcept { return own.size(); }
    /// Pushes after which a pace is known: as many as there are draws, else six of each worker,
    /// when there are many.
    [[nodiscard]] std::int64_t pushes() const noexcept {
        const auto all = static_cast<std::int64_t>(workers());
        return draws != nullptr ? draws->iterations * all : std::max(least_pushes, 6 * all);
    }
    /// What a worker's iteration takes, from 0.
    [[nodiscard]] Ticks own_of(std::size_t worker, std::int64_t iteration) const {
        const Ticks mean = iteration == 0 && !first.empty() ? first[worker] : own[worker];
        if (draws == nullptr) {
            return mean;
        }
        const double factor = draws->factor(replicate, iteration, drawn_as[worker], drawn_workers);
        return std::max<Ticks>(1, static_cast<Ticks>(static_cast<double>(mean) * factor));
    }
};

/// Measures a run's pace: of every worker over whole iterations of its own, so that few of them
/// are enough, after the first quarter of the run.
class PaceMeter {
public:
    explicit PaceMeter(const TimingJob& job);

    /// A push was applied.
    void applied(std::size_t worker, Ticks now, std::int64_t samples, double lag);
    /// A push, or a part of a mini-batch, was computed for nothing.
    void wasted(std::size_t worker, double samples);
    void updated() { ++updates_; }
    /// A mini-batch was under way at the end, with so many of its samples done.
    void unfinished(double samples) { unfinished_ += samples; }
    [[nodiscard]] bool done() const noexcept { return pushes_ >= job_.pushes(); }
    /// Of constant times: over whole iterations. Of draws: all that was done, over all the time.
    [[nodiscard]] PlanTiming result(Ticks now) const;

private:
    struct Tally {
        Ticks last = 0;
        std::int64_t pushes = 0;
        std::int64_t samples = 0;
        double lag = 0;  ///< sum
    };
    struct Row {
        Ticks first = 0;    ///< applied, of those that `late` counts
        Tally all;          ///< from the start
        Tally late;         ///< after the first quarter, without the first
        bool seen = false;  ///< has had a push or a part of one
    };
    struct Pace {
        double samples_s = 0;
        double pushes_s = 0;
        double lag = 0;
    };
    [[nodiscard]] Pace pace_of(const Row& row) const;
    void add_whole_iterations(PlanTiming& timing) const;
    void add_all(PlanTiming& timing, Ticks now) const;
    void add_unfinished(PlanTiming& timing, double& lag_s, double& pushes_s) const;

    const TimingJob& job_;
    std::vector<Row> rows_;
    std::int64_t pushes_ = 0;  ///< applied or not
    std::int64_t fired_ = 0;   ///< pushes applied
    std::int64_t updates_ = 0;
    double max_lag_ = 0;
    double applied_samples_ = 0;
    double wasted_samples_ = 0;
    double unfinished_ = 0;
    double lags_ = 0;  ///< sum
};

/// Plans in which every push is applied, when its cohort has enough of them or alone because it is
/// late: a small event loop.
[[nodiscard]] bool applies_all(const SyncPlan& plan);
/// A lag rule is not looked at: right as long as no push is over its bound.
[[nodiscard]] PlanTiming time_by_loop(const TimingJob& job);

/// Any plan, by the engine.
[[nodiscard]] PlanTiming time_by_engine(const TimingJob& job);

}  // namespace cohort
