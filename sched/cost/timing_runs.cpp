#include "sched/cost/timing_runs.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>
#include <utility>
#include <variant>

#include "cohort/core/error.hpp"
#include "cohort/sched/update_engine.hpp"
#include "sched/plan/lease_work.hpp"

namespace cohort {
namespace {

// Plans that apply every push: a queue of the times at which workers finish.

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

// Any plan: runs its engine with workers that only take time.

/// Arrival of a worker's push.
struct TimedEvent {
    Ticks time = 0;
    std::uint64_t order = 0;  ///< order among equal times
    std::size_t worker = 0;
    std::uint64_t start =
        0;  ///< number of the worker's mini-batch; events of earlier ones are ignored
    friend bool operator>(const TimedEvent& a, const TimedEvent& b) {
        return a.time != b.time ? a.time > b.time : a.order > b.order;
    }
};

struct EngineWorker {
    std::uint64_t starts = 0;
    std::uint64_t pushes = 0;
    std::uint64_t lease = 0;
    std::int64_t version = 0;
    std::int64_t samples = 0;
    std::int64_t iterations = 0;  ///< begun
    bool busy = false;
    Ticks begun = 0;
    Ticks takes = 0;
};

class EngineRun {
public:
    explicit EngineRun(const TimingJob& job)
        : job_(job),
          engine_(
              {.workers = static_cast<int>(job.workers()), .reference_batch = job.reference_batch},
              job.plan),
          workers_(job.workers()),
          meter_(job) {}

    PlanTiming run() {
        for (std::size_t worker = 0; worker < workers_.size(); ++worker) {
            start(worker, 0);
        }
        while (!meter_.done()) {
            check_invariant(!events_.empty(), "somebody works");
            const TimedEvent event = events_.top();
            events_.pop();
            if (event.start != workers_[event.worker].starts) {
                continue;
            }
            now_ = event.time;
            push(event.worker);
        }
        for (const EngineWorker& worker : workers_) {
            if (worker.busy) {
                meter_.unfinished(worker.samples, worker.begun, worker.takes, now_);
            }
        }
        return meter_.result(now_);
    }

private:
    void add(TimedEvent event) {
        event.order = ++order_;
        events_.push(event);
    }

    /// A worker begins a mini-batch, with a lease of its own.
    void start(std::size_t index, std::int64_t version) {
        EngineWorker& worker = workers_[index];
        const std::int64_t batch = job_.batches[index];
        const auto number = static_cast<int>(index);
        worker.samples = engine_.needs_short_lease(number) ? short_lease_of(batch) : batch;
        worker.takes = job_.own_of(index, worker.iterations++) * worker.samples / batch;
        worker.lease = ++leases_;
        worker.version = version;
        worker.begun = now_;
        worker.busy = true;
        engine_.leased(number, worker.lease, worker.samples);
        add({.time = now_ + worker.takes, .worker = index, .start = ++worker.starts});
    }

    void push(std::size_t index) {
        EngineWorker& worker = workers_[index];
        worker.busy = false;
        ++worker.starts;
        effects_.clear();
        engine_.push({.id = {.worker = static_cast<int>(index), .sequence = ++worker.pushes},
                      .lease = worker.lease,
                      .version = worker.version,
                      .samples = worker.samples,
                      .work = job_.plan.work},
                     effects_);
        for (const Effect& effect : effects_) {
            std::visit([this](const auto& one) { carry_out(one); }, effect);
        }
    }

    void carry_out(const Fire& fire) {
        for (const FiredPush& push : fire.pushes) {
            meter_.applied(static_cast<std::size_t>(push.ticket.id.worker), now_,
                           push.ticket.samples, push.lag);
        }
        meter_.updated();
        for (const Fire::Release& release : fire.releases) {
            start(static_cast<std::size_t>(release.worker), fire.version);
        }
    }
    void carry_out(const ReleaseOne& release) {
        start(static_cast<std::size_t>(release.worker), release.version);
    }
    void carry_out(const Refuse& refusal) {
        const auto index = static_cast<std::size_t>(refusal.push.worker);
        meter_.wasted(index, static_cast<double>(workers_[index].samples));
    }
    void carry_out(const Interrupt& interrupt) {
        const auto index = static_cast<std::size_t>(interrupt.worker);
        const EngineWorker& worker = workers_[index];
        const double done = static_cast<double>(std::max<Ticks>(0, now_ - worker.begun)) /
                            static_cast<double>(std::max<Ticks>(1, worker.takes));
        meter_.wasted(index, static_cast<double>(worker.samples) * std::min(1.0, done));
        start(index, interrupt.version);
    }
    void carry_out(const ReturnLease& /*lease*/) {}

    const TimingJob& job_;
    UpdateEngine engine_;
    std::vector<EngineWorker> workers_;
    PaceMeter meter_;
    std::priority_queue<TimedEvent, std::vector<TimedEvent>, std::greater<>> events_;
    std::vector<Effect> effects_;
    Ticks now_ = 0;
    std::uint64_t order_ = 0;
    std::uint64_t leases_ = 0;
};

}  // namespace

bool applies_all(const SyncPlan& plan) {
    const bool plain = plan.late != SyncPlan::Late::kDrop && !plan.late_rounds &&
                       plan.others == SyncPlan::Others::kContinue &&
                       plan.release == SyncPlan::Release::kOnFire && !plan.clock_bound &&
                       !plan.accept;
    return plain && std::ranges::none_of(plan.cohorts, [](const auto& cohort) {
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

PlanTiming time_by_engine(const TimingJob& job) {
    return EngineRun(job).run();
}

}  // namespace cohort
