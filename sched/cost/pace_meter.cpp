#include "sched/cost/timing_runs.hpp"

#include <algorithm>

namespace cohort {
PaceMeter::PaceMeter(const TimingJob& job) : job_(job), rows_(job.workers()) {
}

void PaceMeter::applied(std::size_t worker, Ticks now, std::int64_t samples, double lag) {
    constexpr std::int64_t kSettling = 4;
    Row& row = rows_[worker];
    const auto count = [&](Tally& tally) {
        tally.last = now;
        ++tally.pushes;
        tally.samples += samples;
        tally.lag += lag;
    };
    count(row.all);
    if (row.first > 0) {
        count(row.late);
    } else if (pushes_ * kSettling >= job_.pushes()) {
        row.first = now;
    }
    row.seen = true;
    max_lag_ = std::max(max_lag_, lag);
    lags_ += lag;
    applied_samples_ += static_cast<double>(samples);
    ++fired_;
    ++pushes_;
}

void PaceMeter::wasted(std::size_t worker, double samples) {
    rows_[worker].seen = true;
    wasted_samples_ += samples;
    ++pushes_;
}

/// Pace over the worker's whole iterations after the first quarter; with few iterations, since the
/// start.
PaceMeter::Pace PaceMeter::pace_of(const Row& row) const {
    constexpr std::int64_t kFew = 2;
    const bool settled = row.late.pushes >= kFew;
    const Tally& tally = settled ? row.late : row.all;
    if (tally.pushes == 0) {
        return {};
    }
    const double seconds =
        static_cast<double>(tally.last - (settled ? row.first : 0)) * job_.tick_s;
    const auto pushes = static_cast<double>(tally.pushes);
    return {.samples_s = static_cast<double>(tally.samples) / seconds,
            .pushes_s = pushes / seconds,
            .lag = tally.lag / pushes};
}

/// A worker too slow to finish one iteration lags by the updates of the others meanwhile, if the
/// plan accepts such pushes.
void PaceMeter::add_unfinished(PlanTiming& timing, double& lag_s, double& pushes_s) const {
    const SyncPlan& plan = job_.plan;
    if (plan.late == SyncPlan::Late::kDrop || plan.late_rounds || plan.lag_rule) {
        return;
    }
    const double batches_s = timing.samples_s / static_cast<double>(job_.reference_batch);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (!rows_[i].seen) {
            const double lag = batches_s * job_.own_s[i];
            timing.samples_s += static_cast<double>(job_.batches[i]) / job_.own_s[i];
            timing.max_lag = std::max(timing.max_lag, lag);
            lag_s += lag / job_.own_s[i];
            pushes_s += 1 / job_.own_s[i];
        }
    }
}

void PaceMeter::add_whole_iterations(PlanTiming& timing) const {
    double pushes_s = 0;
    double lag_s = 0;
    for (const Row& row : rows_) {
        const Pace pace = pace_of(row);
        timing.samples_s += pace.samples_s;
        pushes_s += pace.pushes_s;
        lag_s += pace.lag * pace.pushes_s;
    }
    add_unfinished(timing, lag_s, pushes_s);
    if (pushes_s > 0) {
        timing.mean_lag = lag_s / pushes_s;
        timing.update_s = static_cast<double>(fired_) / (static_cast<double>(updates_) * pushes_s);
    }
}

void PaceMeter::add_all(PlanTiming& timing, Ticks now) const {
    const double seconds = static_cast<double>(now) * job_.tick_s;
    timing.samples_s = (applied_samples_ + unfinished_) / seconds;
    timing.mean_lag = fired_ > 0 ? lags_ / static_cast<double>(fired_) : 0;
    timing.update_s = seconds / static_cast<double>(std::max<std::int64_t>(updates_, 1));
}

PlanTiming PaceMeter::result(Ticks now) const {
    PlanTiming timing{.max_lag = max_lag_, .replicates = {}};
    if (job_.draws == nullptr) {
        add_whole_iterations(timing);
    } else {
        add_all(timing, now);
    }
    timing.used = applied_samples_ / (applied_samples_ + wasted_samples_);
    return timing;
}

}  // namespace cohort
