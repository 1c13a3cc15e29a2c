// Riders: their gradients from the start of a mini-batch to the round that takes them, and the
// parameters that they go on with.
#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "sim/job/ring_job.hpp"

namespace cohort {

void RingJob::start_riders() {
    while (!parked_.empty() && start_ride(*parked_.begin())) {
    }
}

/// False when there is no lease for it.
bool RingJob::start_ride(int worker) {
    Lease* const mine = take_lease(worker);
    if (mine == nullptr) {
        return false;
    }
    check_invariant(mine->work == Work::kGradient, "riders compute gradients");
    Seat& rider = seat(worker);
    parked_.erase(worker);
    rider.lease = mine->id;
    rider.step = 0;
    rider.own_s = 0;
    rider.record.input_s = 0;
    rider.cpu = {};
    rider.ready = false;
    rider.riding = true;
    rider.flush = false;  // begun after the fence was called: a rider that stays one goes on
    rider.parts = 2;
    rider.pushes_to = rider.parent;
    mine->computed = learner().start(job_of(*mine, std::exchange(rider.parameters, nullptr)));
    work_off_update(worker, [this, worker] { begin_step(worker); });
    return true;
}

/// It has parameters that it has not used.
void RingJob::park(int worker) {
    seat(worker).ready = true;
    if (seat(worker).role == RingRole::kRider) {
        parked_.insert(worker);
    }
}

/// Ready for the next grant once it is computed and with its parent.
void RingJob::ride_part_done(int worker) {
    Seat& rider = seat(worker);
    if (--rider.parts > 0) {
        return;
    }
    rider.record.compute_s = rider.own_s - rider.record.input_s;
    const double sent_s = now() - rider.computed_at_s;
    const double alone_s = rider.backward_at_s + out_alone_s(worker, bytes()) - rider.computed_at_s;
    rider.record.push_s = std::clamp(alone_s, 0.0, sent_s);
    rider.record.wait_s += sent_s - rider.record.push_s;
    rider.record.use.tx_bytes_s = rate(bytes(), now() - rider.backward_at_s);
    timed({.worker = worker,
           .samples = samples_of(rider.lease),
           .version = rider.version,
           .own_s = rider.own_s,
           .record = rider.record});
    lanes().span(worker, LaneSpan::Kind::kPush, rider.computed_at_s, now());
    for (const int end : {worker, rider.pushes_to}) {
        lanes().used(end, 0, bytes());
    }
    rider.pushed_at_s = now();
    ready_.push_back({.worker = worker,
                      .parent = rider.pushes_to,
                      .lease = rider.lease,
                      .version = rider.version});
    happened();
}

/// All that are here, in order of arrival; when no member has samples one by one, since the engine
/// makes an update of each.
void RingJob::add_riders(Round& next) {
    const bool alone = next.samples == 0;
    while (!ready_.empty() && !(alone && !next.riders.empty())) {
        const RiderPush push = ready_.front();
        ready_.pop_front();
        if (usable(push)) {
            next.samples += samples_of(push.lease);
            next.riders.push_back(push);
        }
    }
}

/// A gradient that is not finite: its rider goes on with new parameters.
bool RingJob::usable(const RiderPush& push) {
    if (learner().outcome(held(push.lease).computed).finite) {
        return true;
    }
    const std::int64_t samples = samples_of(push.lease);
    unused(push.worker, samples, ReturnReason::kNonFinite);
    dropped();
    engine().leased(push.worker, push.lease, samples);
    carry_out(engine().take_back(push.worker, ReturnReason::kNonFinite));
    carry_out(engine().idle(push.worker));
    seat(push.worker).idle = true;
    release_rider(push.worker, 0, push.parent);
    return false;
}

/// Parameters of now for a rider whose push is settled.
void RingJob::release_rider(int worker, double lag, int giver) {
    Seat& rider = seat(worker);
    rider.riding = false;
    rider.parameters = parameters_for(worker, lag);
    rider.version = engine().version();
    lanes().span(worker, LaneSpan::Kind::kWait, rider.pushed_at_s, now());
    rider.record = {.wait_s = now() - rider.pushed_at_s};
    for (const int end : {worker, giver}) {
        lanes().used(end, 0, bytes());
    }
    rider.work =
        cluster().send(node_of(giver), node_of(worker), bytes(), [this, worker, begun_s = now()] {
            Seat& one = seat(worker);
            one.work = 0;
            one.record.pull_s = std::min(now() - begun_s, in_alone_s(worker, bytes()));
            one.record.wait_s += now() - begun_s - one.record.pull_s;
            one.record.use.rx_bytes_s = rate(bytes(), now() - begun_s);
            park(worker);
            lanes().span(worker, LaneSpan::Kind::kPull, begun_s, now());
            happened();
        });
}

std::vector<RingSeat> RingJob::ring_seats() const {
    std::vector<RingSeat> seats;
    seats.reserve(seats_.size());
    for (const Seat& seat : seats_) {
        seats.push_back({.role = seat.role,
                         .parent = seat.parent,
                         .node = node_of(static_cast<int>(seats.size()))});
    }
    return seats;
}

}  // namespace cohort
