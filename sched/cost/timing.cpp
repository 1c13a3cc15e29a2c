#include "cohort/sched/timing.hpp"

#include <algorithm>
#include <cmath>

#include "cohort/core/error.hpp"
#include "sched/cost/timing_runs.hpp"

// How fast a plan goes. Plans that apply every push need a queue of (time, worker), one step per
// push; the others are run by the engine. Both agree where both can be used.
namespace cohort {
namespace {

/// Finer than any clock; times written with few decimals stay whole.
double tick_for(double least_own_s) {
    return std::pow(10, std::floor(std::log10(least_own_s)) - 7);
}

Ticks to_ticks(double seconds, double tick_s) {
    constexpr double kMost = 1LL << 40;  // limit for a worker 10,000 times as slow as the others
    return static_cast<Ticks>(std::llround(std::min(seconds / tick_s, kMost)));
}

/// Renumbers the plan's workers.
/// @return new index by worker; -1: it has no place in the plan
std::vector<int> renumber(SyncPlan& plan, std::size_t workers) {
    std::vector<int> index(workers, -1);
    for (const CohortSpec& cohort : plan.cohorts) {
        for (const std::vector<int>* list : {&cohort.members, &cohort.riders}) {
            for (const int worker : *list) {
                index.at(static_cast<std::size_t>(worker)) = 0;
            }
        }
    }
    int next = 0;
    for (int& one : index) {
        one = one < 0 ? one : next++;
    }
    for (CohortSpec& cohort : plan.cohorts) {
        for (std::vector<int>* list : {&cohort.members, &cohort.riders}) {
            for (int& worker : *list) {
                worker = index[static_cast<std::size_t>(worker)];
            }
        }
    }
    return index;
}

TimingJob job_of(const SyncPlan& plan, std::span<const double> own_s,
                 std::span<const std::int64_t> batches, std::int64_t reference_batch) {
    check_invariant(own_s.size() == batches.size(), "a time and a batch for each worker");
    check_invariant(reference_batch > 0, "a reference batch has samples");
    TimingJob job{.plan = plan,
                  .own_s = {},
                  .own = {},
                  .batches = {},
                  .reference_batch = reference_batch,
                  .first = {},
                  .drawn_as = {}};
    const std::vector<int> index = renumber(job.plan, own_s.size());
    for (std::size_t i = 0; i < index.size(); ++i) {
        if (index[i] >= 0) {
            check_invariant(own_s[i] > 0 && std::isfinite(own_s[i]) && batches[i] > 0,
                            "who takes part has a time and samples");
            job.own_s.push_back(own_s[i]);
            job.batches.push_back(batches[i]);
            job.drawn_as.push_back(i);
        }
    }
    check_invariant(!job.own_s.empty(), "somebody takes part");
    job.drawn_workers = own_s.size();
    job.tick_s = tick_for(*std::ranges::min_element(job.own_s));
    std::ranges::transform(job.own_s, std::back_inserter(job.own),
                           [&job](double seconds) { return to_ticks(seconds, job.tick_s); });
    return job;
}

}  // namespace

/// Patterns may take hundreds of updates until they repeat.
double static_update_s(std::span<const double> own_s, int quorum) {
    constexpr std::int64_t kPushes = 8192;
    check_invariant(quorum >= 1 && static_cast<std::size_t>(quorum) <= own_s.size(),
                    "a quorum of the workers");
    SyncPlan plan;
    plan.cohorts.push_back({.members = {}, .riders = {}, .quorum = quorum});
    for (std::size_t i = 0; i < own_s.size(); ++i) {
        plan.cohorts.front().members.push_back(static_cast<int>(i));
    }
    const std::vector<std::int64_t> batches(own_s.size(), 1);
    TimingJob job = job_of(plan, own_s, batches, static_cast<std::int64_t>(own_s.size()));
    job.least_pushes = kPushes;
    return time_by_loop(job).update_s;
}

TimeDraws TimeDraws::averaged(int steps, std::size_t workers) const {
    TimeDraws means{
        .replicates = replicates, .iterations = std::max(1, iterations / steps), .factors = {}};
    for (int replicate = 0; replicate < replicates; ++replicate) {
        for (int iteration = 0; iteration < means.iterations; ++iteration) {
            for (std::size_t worker = 0; worker < workers; ++worker) {
                float sum = 0;
                for (int step = 0; step < steps; ++step) {
                    sum += static_cast<float>(
                        factor(replicate, std::int64_t{iteration} * steps + step, worker, workers));
                }
                means.factors.push_back(sum / static_cast<float>(steps));
            }
        }
    }
    return means;
}

namespace {

/// Runs the loop where it is exact, else the engine.
PlanTiming run(const TimingJob& job) {
    if (!applies_all(job.plan)) {
        return time_by_engine(job);
    }
    const PlanTiming timing = time_by_loop(job);
    const bool within = !job.plan.lag_rule || timing.max_lag <= job.plan.lag_rule->bound;
    return within ? timing : time_by_engine(job);
}

}  // namespace

PlanTiming time_plan(const SyncPlan& plan, std::span<const double> own_s,
                     std::span<const std::int64_t> batches, std::int64_t reference_batch) {
    return run(job_of(plan, own_s, batches, reference_batch));
}

PlanTiming time_plan(const SyncPlan& plan, std::span<const double> own_s,
                     std::span<const std::int64_t> batches, std::int64_t reference_batch,
                     const TimeDraws& draws, std::span<const double> first_s) {
    check_invariant(draws.replicates > 0 && draws.iterations > 0, "something was drawn");
    TimingJob job = job_of(plan, own_s, batches, reference_batch);
    job.draws = &draws;
    for (const std::size_t worker : job.drawn_as) {
        if (!first_s.empty()) {
            job.first.push_back(to_ticks(first_s[worker], job.tick_s));
        }
    }
    PlanTiming mean;
    const double share = 1.0 / draws.replicates;
    double sample_s = 0;  // weighted by duration
    for (job.replicate = 0; job.replicate < draws.replicates; ++job.replicate) {
        const PlanTiming one = run(job);
        mean.update_s += share * one.update_s;
        sample_s += share / one.samples_s;
        mean.mean_lag += share * one.mean_lag;
        mean.mean_square_lag += share * one.mean_square_lag;
        mean.max_lag = std::max(mean.max_lag, one.max_lag);
        mean.used += share * one.used;
        mean.replicates.push_back(one.samples_s);
    }
    mean.samples_s = 1 / sample_s;
    return mean;
}

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
        tally.square_lag += lag * lag;
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
    square_lags_ += lag * lag;
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
            .lag = tally.lag / pushes,
            .square_lag = tally.square_lag / pushes};
}

/// A worker too slow to finish one iteration lags by the updates of the others meanwhile, if the
/// plan accepts such pushes.
void PaceMeter::add_unfinished(PlanTiming& timing, LagSums& sums) const {
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
            sums.add(1 / job_.own_s[i], lag, lag * lag);
        }
    }
}

void PaceMeter::add_whole_iterations(PlanTiming& timing) const {
    LagSums sums;
    for (const Row& row : rows_) {
        const Pace pace = pace_of(row);
        timing.samples_s += pace.samples_s;
        sums.add(pace.pushes_s, pace.lag, pace.square_lag);
    }
    add_unfinished(timing, sums);
    if (sums.pushes_s > 0) {
        timing.mean_lag = sums.lag_s / sums.pushes_s;
        timing.mean_square_lag = sums.square_lag_s / sums.pushes_s;
        timing.update_s =
            static_cast<double>(fired_) / (static_cast<double>(updates_) * sums.pushes_s);
    }
}

void PaceMeter::add_all(PlanTiming& timing, Ticks now) const {
    const double seconds = static_cast<double>(now) * job_.tick_s;
    timing.samples_s = (applied_samples_ + unfinished_) / seconds;
    const auto fired = static_cast<double>(std::max<std::int64_t>(fired_, 1));
    timing.mean_lag = lags_ / fired;
    timing.mean_square_lag = square_lags_ / fired;
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
