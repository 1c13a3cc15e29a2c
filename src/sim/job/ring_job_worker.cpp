#include <algorithm>
#include <utility>

#include "sim/job/ring_job_parts.hpp"

namespace cohort {

void RingJob::Worker::begin(std::uint64_t next_lease) {
    lease = next_lease;
    step = 0;
    own_s = 0;
    cpu_ = {};
}

void RingJob::Worker::apply_update(Action then) {
    if (std::exchange(update_due, false)) {
        update([this, begun_s = job_->now(), then = std::move(then)] {
            record.pull_s += job_->now() - begun_s;
            then();
        });
    } else {
        then();
    }
}

void RingJob::Worker::update(Action then) {
    const VirtualCluster::IterationCost cost = job_->spec().update_cost(job_->cluster().profile());
    job_->lanes().used(index_, cost.cpu_core_s, 0);
    work = job_->cluster().work(
        job_->place(index_), cost, [this, begun_s = job_->now(), then = std::move(then)] {
            work = 0;
            job_->lanes().span(index_, LaneSpan::Kind::kCompute, begun_s, job_->now());
            then();
        });
}

void RingJob::Worker::begin_step(Action backward, Action computed) {
    const Lease& mine = job_->lease_out(lease);
    const std::int64_t count = mine.slice.count;
    const std::int64_t samples = count * (step + 1) / mine.steps - count * step / mine.steps;
    const VirtualCluster::PlaceId place = job_->place(index_);
    job_->cluster().begin_iteration(place, job_->rounds_done() + step);
    const VirtualCluster::IterationCost cost = job_->spec().cost_of(samples);
    const Step begun{.begun_s = job_->now(),
                     .delay_s = job_->cluster().shares(place).delay_s,
                     .wanted_s = cost.cpu_core_s / cost.cpu_threads};
    job_->lanes().used(index_, cost.cpu_core_s, 0);
    work = job_->cluster().compute(
        place, cost,
        [this, backward = std::move(backward)] {
            backward_at_s = job_->now();
            backward();
        },
        [this, begun, computed = std::move(computed)] {
            note_step(begun);
            computed();
        });
}

/// In the picture forward takes its share of the time that backward took.
void RingJob::Worker::note_step(const Step& done) {
    const double now = job_->now();
    const double share = job_->spec().workload.backward_share;
    const double device_s = share > 0 ? (now - backward_at_s) / share : 0;
    const double input_at_s = std::min(done.begun_s + done.delay_s, now);
    const double forward_at_s = std::max(now - device_s, input_at_s);
    work = 0;
    own_s += now - done.begun_s;
    computed_at_s = now;
    ++step;
    job_->lanes().span(index_, LaneSpan::Kind::kDelay, done.begun_s, input_at_s);
    job_->lanes().span(index_, LaneSpan::Kind::kInput, input_at_s, forward_at_s);
    job_->lanes().span(index_, LaneSpan::Kind::kCompute, forward_at_s, now);
    record.input_s += forward_at_s - done.begun_s;
    cpu_.wanted_s += done.wanted_s;
    cpu_.took_s += forward_at_s - input_at_s;
    record.use.cpu_share = job_->cpu_share(index_, cpu_);
}

void RingJob::Worker::cancel() {
    if (work != 0) {
        job_->cluster().cancel(std::exchange(work, 0));
    }
}

}  // namespace cohort
