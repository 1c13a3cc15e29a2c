#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "sim/job/ring_job_parts.hpp"

namespace cohort {

void RingJob::Rides::begin() {
    while (!parked_.empty() && begin(*parked_.begin())) {
    }
}

/// False when there is no lease for it.
bool RingJob::Rides::begin(int worker) {
    VirtualLease* const mine = job_.take_lease(worker);
    if (mine == nullptr) {
        return false;
    }
    check_invariant(mine->work == Work::kGradient, "riders compute gradients");
    parked_.erase(worker);
    Rider& rider = at(worker);
    rider.ready = false;
    rider.riding = true;
    ++rider.begun;
    rider.parts = 2;
    rider.parent = job_.ring_.roster.seat(worker).parent;
    job_.worker(worker).begin(mine->id);
    job_.worker(worker).record.input_s = 0;
    mine->computed =
        job_.learner.start(job_.job_of(*mine, std::exchange(rider.parameters, nullptr)));
    job_.worker(worker).apply_update([this, worker] {
        job_.worker(worker).begin_step([this, worker] { backward(worker); },
                                       [this, worker] { part_done(worker); });
    });
    return true;
}

void RingJob::Rides::backward(int worker) {
    at(worker).push = job_.cluster.send(job_.node_of(worker), job_.node_of(at(worker).parent),
                                        job_.bytes_, [this, worker] {
                                            at(worker).push = 0;
                                            part_done(worker);
                                        });
}

/// The gradient is ready for the next grant once it is computed and with the parent.
void RingJob::Rides::part_done(int worker) {
    Rider& rider = at(worker);
    if (--rider.parts > 0) {
        return;
    }
    note_times(worker);
    rider.pushed_at_s = job_.now();
    const VirtualLease& mine = job_.leases_out.at(job_.worker(worker).lease);
    const PushId push{.worker = worker, .sequence = rider.begun};
    job_.ring_.riders.add_ticket({.id = push,
                                  .lease = mine.id,
                                  .version = rider.version,
                                  .samples = mine.slice.count,
                                  .work = mine.work});
    job_.ring_.riders.add_gradient(push, rider.parent);
    job_.happened();
}

void RingJob::Rides::note_times(int worker) {
    Worker& one = job_.worker(worker);
    const double now = job_.now();
    one.record.compute_s = one.own_s - one.record.input_s;
    const double sent_s = now - one.computed_at_s;
    const double card_s = job_.alone_s(job_.cluster.shares(job_.place(worker)).tx);
    one.record.push_s = std::clamp(one.backward_at_s + card_s - one.computed_at_s, 0.0, sent_s);
    one.record.wait_s += sent_s - one.record.push_s;
    one.record.use.tx_bytes_s = rate(job_.bytes_, now - one.backward_at_s);
    job_.timed({.lease = one.lease,
                .version = at(worker).version,
                .own_s = one.own_s,
                .record = one.record});
    job_.lanes.span(worker, LaneSpan::Kind::kPush, one.computed_at_s, now);
    for (const int end : {worker, at(worker).parent}) {
        job_.lanes.used(end, 0, job_.bytes_);
    }
}

void RingJob::Rides::release(int worker, double lag, int giver) {
    Rider& rider = at(worker);
    Worker& one = job_.worker(worker);
    const double begun_s = job_.now();
    rider.riding = false;
    rider.parameters = job_.parameters_for(worker, lag);
    rider.version = job_.engine().version();
    job_.lanes.span(worker, LaneSpan::Kind::kWait, rider.pushed_at_s, begun_s);
    one.record = {.wait_s = begun_s - rider.pushed_at_s};
    one.receive(giver, job_.bytes_, [this, worker, begun_s] { received(worker, begun_s); });
}

void RingJob::Rides::received(int worker, double begun_s) {
    Worker& one = job_.worker(worker);
    const double took_s = job_.now() - begun_s;
    one.record.pull_s = std::min(took_s, job_.alone_s(job_.cluster.shares(job_.place(worker)).rx));
    one.record.wait_s += took_s - one.record.pull_s;
    one.record.use.rx_bytes_s = rate(job_.bytes_, took_s);
    park(worker);
    job_.lanes.span(worker, LaneSpan::Kind::kPull, begun_s, job_.now());
    job_.happened();
}

/// It has parameters that it has not used.
void RingJob::Rides::park(int worker) {
    at(worker).ready = true;
    if (job_.ring_.roster.seat(worker).role == RingRole::kRider) {
        parked_.insert(worker);
    }
}

/// What it has not applied of the parameters of now it applies before it begins.
void RingJob::Rides::join(int worker) {
    at(worker).parameters = job_.parameters_for(worker, 0);
    at(worker).version = job_.engine().version();
    park(worker);
}

void RingJob::Rides::set_holding(int worker, bool holding) {
    if (holding) {
        parked_.erase(worker);
    } else if (at(worker).ready) {
        parked_.insert(worker);
    }
}

void RingJob::Rides::leave(int worker) {
    at(worker).ready = false;
    at(worker).parameters.reset();
}

bool RingJob::Rides::pushing() const {
    return std::any_of(riders_.begin(), riders_.end(),
                       [](const Rider& rider) { return rider.push != 0; });
}

void RingJob::Rides::cancel() {
    parked_.clear();
    for (Rider& rider : riders_) {
        if (rider.push != 0) {
            job_.cluster.cancel(std::exchange(rider.push, 0));
        }
    }
}

}  // namespace cohort
