#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "timing_runs.hpp"

// Plans that apply every push: by formula, or by a queue of what each worker finishes when.
namespace cohort {
namespace {

/// (time, worker) in one number: the earliest first, of equal ones the lower index.
class Finishes {
public:
    explicit Finishes(std::size_t workers)
        : bits_(static_cast<int>(std::bit_width(workers))), mask_((std::uint64_t{1} << bits_) - 1) {
        heap_.reserve(workers);
    }
    void add(Ticks time, std::size_t worker) {
        heap_.push_back(static_cast<std::uint64_t>(time) << bits_ | worker);
        std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    }
    struct Next {
        Ticks time;
        std::size_t worker;
    };
    Next take() {
        std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
        const std::uint64_t key = heap_.back();
        heap_.pop_back();
        return {static_cast<Ticks>(key >> bits_), static_cast<std::size_t>(key & mask_)};
    }

private:
    int bits_;
    std::uint64_t mask_;
    std::vector<std::uint64_t> heap_;
};

struct LoopCohort {
    int quorum = 0;
    int counting = 0;
    std::vector<std::size_t> pending;
};

struct LoopWorker {
    std::size_t cohort = 0;
    bool member = true;
    double applied = 0;  ///< samples, when it was released
};

struct Loop {
    explicit Loop(const TimingJob& timing_job)
        : job(timing_job), workers(job.workers()), finishes(job.workers()) {
        for (const CohortSpec& spec : job.plan.cohorts) {
            const auto members = static_cast<int>(spec.members.size());
            cohorts.push_back({.quorum = std::min(spec.quorum, members), .pending = {}});
            for (const int worker : spec.members) {
                workers[static_cast<std::size_t>(worker)].cohort = cohorts.size() - 1;
            }
            for (const int worker : spec.riders) {
                workers[static_cast<std::size_t>(worker)] = {.cohort = cohorts.size() - 1,
                                                             .member = false};
            }
        }
    }

    const TimingJob& job;
    std::vector<LoopCohort> cohorts;
    std::vector<LoopWorker> workers;
    Finishes finishes;
    double applied = 0;  ///< samples
};

void fire(Loop& loop, LoopCohort& cohort, Ticks now, ServerQueues& queues, PaceMeter& meter) {
    const TimingJob& job = loop.job;
    const Ticks release = queues.update(now, static_cast<std::int64_t>(cohort.pending.size()));
    std::int64_t samples = 0;
    for (const std::size_t worker : cohort.pending) {
        const double lag = (loop.applied - loop.workers[worker].applied) /
                           static_cast<double>(job.reference_batch);
        meter.applied(worker, now, job.batches[worker], lag);
        samples += job.batches[worker];
    }
    meter.updated();
    loop.applied += static_cast<double>(samples);
    for (const std::size_t worker : cohort.pending) {
        loop.workers[worker].applied = loop.applied;
        loop.finishes.add(release + job.own[worker], worker);
    }
    cohort.pending.clear();
    cohort.counting = 0;
}

}  // namespace

bool applies_all(const SyncPlan& plan) {
    const bool plain = plan.late == SyncPlan::Late::kMerge && !plan.late_rounds &&
                       plan.others == SyncPlan::Others::kContinue &&
                       plan.release == SyncPlan::Release::kOnFire && !plan.clock_bound &&
                       !plan.accept;
    return plain && std::none_of(plan.cohorts.begin(), plan.cohorts.end(), [](const auto& cohort) {
               return cohort.fresh_only || cohort.count != CohortSpec::Count::kWorkers;
           });
}

bool waits_for_all(const TimingJob& job) {
    const SharedCapacity& capacity = job.capacity;
    const bool free = capacity.push_s == 0 && capacity.update_s == 0 && capacity.add_s == 0;
    return free &&
           std::all_of(job.plan.cohorts.begin(), job.plan.cohorts.end(),
                       [](const CohortSpec& cohort) {
                           return cohort.riders.empty() && !cohort.members.empty() &&
                                  static_cast<std::size_t>(cohort.quorum) >= cohort.members.size();
                       });
}

/// A cohort makes an update every time its slowest is done; a push of it lags by what the others
/// apply meanwhile, on average over all ways in which their rounds may lie.
PlanTiming time_by_formula(const TimingJob& job) {
    struct Round {
        double seconds = 0;
        double batches = 0;  ///< reference batches
        double pushes = 0;
    };
    std::vector<Round> rounds;
    for (const CohortSpec& cohort : job.plan.cohorts) {
        Round& round = rounds.emplace_back();
        for (const int member : cohort.members) {
            const auto i = static_cast<std::size_t>(member);
            round.seconds = std::max(round.seconds, job.own_s[i]);
            round.batches +=
                static_cast<double>(job.batches[i]) / static_cast<double>(job.reference_batch);
        }
        round.pushes = static_cast<double>(cohort.members.size());
    }
    double updates_s = 0;
    double batches_s = 0;
    double pushes_s = 0;
    double lags_s = 0;
    PlanTiming timing{.used = 1};
    for (const Round& round : rounds) {
        updates_s += 1 / round.seconds;
        batches_s += round.batches / round.seconds;
    }
    for (const Round& round : rounds) {
        const double others_s = batches_s - round.batches / round.seconds;
        pushes_s += round.pushes / round.seconds;
        lags_s += round.pushes * others_s;
        double most = -round.batches;
        for (const Round& other : rounds) {
            constexpr double kSame = 1e-9;
            most += std::ceil(round.seconds / other.seconds - kSame) * other.batches;
        }
        timing.max_lag = std::max(timing.max_lag, most);
    }
    timing.update_s = 1 / updates_s;
    timing.samples_s = batches_s * static_cast<double>(job.reference_batch);
    timing.mean_lag = lags_s / pushes_s;
    return timing;
}

PlanTiming time_by_loop(const TimingJob& job) {
    Loop loop(job);
    ServerQueues queues(job.capacity, job.tick_s);
    PaceMeter meter(job);
    for (std::size_t worker = 0; worker < job.workers(); ++worker) {
        loop.finishes.add(job.own[worker], worker);
    }
    Ticks now = 0;
    while (!meter.done()) {
        const Finishes::Next next = loop.finishes.take();
        now = queues.push(next.time);
        const LoopWorker& worker = loop.workers[next.worker];
        LoopCohort& cohort = loop.cohorts[worker.cohort];
        cohort.pending.push_back(next.worker);
        cohort.counting += worker.member ? 1 : 0;
        if (cohort.counting >= cohort.quorum) {
            fire(loop, cohort, now, queues, meter);
        }
    }
    return meter.result(now, queues);
}

}  // namespace cohort
