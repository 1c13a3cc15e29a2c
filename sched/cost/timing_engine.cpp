#include <functional>
#include <queue>
#include <variant>

#include "cohort/core/error.hpp"
#include "cohort/sched/update_engine.hpp"
#include "sched/cost/timing_runs.hpp"
#include "sched/plan/lease_work.hpp"

// Timing of any plan: runs its engine with workers that only take time.
namespace cohort {
namespace {

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

PlanTiming time_by_engine(const TimingJob& job) {
    return EngineRun(job).run();
}

}  // namespace cohort
