#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <utility>

#include "sched/cost/timing_runs.hpp"

// Timing of plans that apply every push: a queue of the times at which workers finish.
namespace cohort {
namespace {

/// (time, worker) in one number: the earliest first, among equal times the lower index.
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
    std::int64_t fires = 0;
    std::vector<std::size_t> pending;
};

struct LoopWorker {
    std::size_t cohort = 0;
    bool member = true;
    bool busy = false;
    double applied = 0;           ///< samples applied when the worker was released
    std::int64_t fires = 0;       ///< fires of its cohort at that time
    std::int64_t iterations = 0;  ///< begun
    Ticks begun = 0;
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

    void begin(std::size_t index, Ticks now) {
        LoopWorker& worker = workers[index];
        worker.applied = applied;
        worker.fires = cohorts[worker.cohort].fires;
        worker.begun = now;
        worker.busy = true;
        finishes.add(now + job.own_of(index, worker.iterations++), index);
    }

    const TimingJob& job;
    std::vector<LoopCohort> cohorts;
    std::vector<LoopWorker> workers;
    Finishes finishes;
    double applied = 0;  ///< samples
};

/// Makes an update of these pushes; their workers start their next iterations.
void apply(Loop& loop, const std::vector<std::size_t>& pushes, Ticks now, PaceMeter& meter) {
    const TimingJob& job = loop.job;
    std::int64_t samples = 0;
    for (const std::size_t worker : pushes) {
        const double lag = (loop.applied - loop.workers[worker].applied) /
                           static_cast<double>(job.reference_batch);
        meter.applied(worker, now, job.batches[worker], lag);
        samples += job.batches[worker];
    }
    meter.updated();
    loop.applied += static_cast<double>(samples);
    for (const std::size_t worker : pushes) {
        loop.begin(worker, now);
    }
}

void arrive(Loop& loop, std::size_t index, Ticks now, PaceMeter& meter) {
    LoopWorker& worker = loop.workers[index];
    LoopCohort& cohort = loop.cohorts[worker.cohort];
    worker.busy = false;
    const bool late = worker.member && worker.fires < cohort.fires;
    if (late && loop.job.plan.late == SyncPlan::Late::kAlone) {
        apply(loop, {index}, now, meter);
        return;
    }
    cohort.pending.push_back(index);
    cohort.counting += worker.member ? 1 : 0;
    if (cohort.counting >= cohort.quorum) {
        ++cohort.fires;
        cohort.counting = 0;
        apply(loop, std::exchange(cohort.pending, {}), now, meter);
    }
}

/// Counts waiting pushes, and mini-batches in progress by their finished part.
void count_unfinished(const Loop& loop, Ticks now, PaceMeter& meter) {
    for (const LoopCohort& cohort : loop.cohorts) {
        for (const std::size_t worker : cohort.pending) {
            meter.unfinished(static_cast<double>(loop.job.batches[worker]));
        }
    }
    for (std::size_t i = 0; i < loop.workers.size(); ++i) {
        const LoopWorker& worker = loop.workers[i];
        if (worker.busy) {
            meter.unfinished(loop.job.batches[i], worker.begun,
                             loop.job.own_of(i, worker.iterations - 1), now);
        }
    }
}

}  // namespace

bool applies_all(const SyncPlan& plan) {
    const bool plain = plan.late != SyncPlan::Late::kDrop && !plan.late_rounds &&
                       plan.others == SyncPlan::Others::kContinue &&
                       plan.release == SyncPlan::Release::kOnFire && !plan.clock_bound &&
                       !plan.accept;
    return plain && std::none_of(plan.cohorts.begin(), plan.cohorts.end(), [](const auto& cohort) {
               return cohort.fresh_only || cohort.count != CohortSpec::Count::kWorkers;
           });
}

PlanTiming time_by_loop(const TimingJob& job) {
    Loop loop(job);
    PaceMeter meter(job);
    for (std::size_t worker = 0; worker < job.workers(); ++worker) {
        loop.begin(worker, 0);
    }
    Ticks now = 0;
    while (!meter.done()) {
        const Finishes::Next next = loop.finishes.take();
        now = next.time;
        arrive(loop, next.worker, now, meter);
    }
    count_unfinished(loop, now, meter);
    return meter.result(now);
}

}  // namespace cohort
