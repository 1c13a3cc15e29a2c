#include "sim/job/ring_job.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "optim/update_cost.hpp"
#include "sim/job/ring_job_parts.hpp"
#include "sim/job/virtual_jobs.hpp"

namespace cohort {

RingJob::RingJob(VirtualCluster& cluster, Learner& learner, JobSpec spec)
    : VirtualJob(cluster, learner, std::move(spec)),
      ring_(*this, this->spec().worker_nodes),
      ends_(std::make_unique<RoundEnd>(*this)),
      rides_(std::make_unique<Rides>(*this)),
      bytes_(this->spec().workload.parameter_bytes) {
    for (int index = 0; index < workers(); ++index) {
        workers_.emplace_back(*this, index);
    }
}

RingJob::~RingJob() = default;

RingJob::Worker& RingJob::worker(int index) {
    return workers_[at(index)];
}

bool RingJob::stuck() const {
    return !running_ && !rides_->pushing() &&
           std::all_of(workers_.begin(), workers_.end(),
                       [](const Worker& worker) { return worker.work == 0; });
}

/// 1. What was granted begins. 2. A plan that waits is put in force when the fence is reached; the
/// ring goes on for as long as riders hand in what they work on. 3. Grants and rides.
void RingJob::deal() {
    begin_next();
    if (ring_.plans.ready()) {
        if (running_) {
            ends_->skip_unbegun();
            rides_->begin();
            return;
        }
        switch_over();
    }
    while (ring_.rounds.grant(engine().plan(), samples_applied()) != nullptr) {
        begin_next();
    }
    rides_->begin();
}

void RingJob::switch_over() {
    put_in_force(ring_.plans.take());
    ring_.plans.switch_members(engine().plan());
    for (int index = 0; index < workers(); ++index) {
        if (ring_.roster.is_orphan(index)) {
            give_role(index, RingRole::kRider, ring_.roster.choose_parent(index));
        }
    }
}

RoundLease RingJob::claim(int worker) {
    const Lease* const mine = take_lease(worker);
    return mine == nullptr
               ? RoundLease()
               : RoundLease{.lease = mine->id, .samples = mine->slice.count, .steps = mine->steps};
}

/// A gradient that is not finite: its rider goes on with new parameters.
bool RingJob::usable(const PushId& push) {
    if (ends_->finite(ring_.riders.at(push).ticket->lease)) {
        return true;
    }
    ends_->refuse(push);
    return false;
}

void RingJob::begin_next() {
    if (!running_ && !ring_.rounds.empty()) {
        running_ = std::make_unique<RunningRound>(*this, ring_.rounds.rounds().front());
        running_->begin();
    }
}

void RingJob::round_over() {
    running_->note_times();
    running_.reset();
    ends_->settle(ring_.rounds.take_oldest());
    happened();
}

/// The riders whose gradients are in the update go on with its parameters, from who held them.
void RingJob::fired(const Fire& fire) {
    for (const Fire::Release& release : fire.releases) {
        if (rides_->riding(release.worker) && !stopping()) {
            rides_->release(release.worker, release.lag, rides_->parent_of_push(release.worker));
        }
    }
}

void RingJob::interrupted(const Interrupt& /*interrupt*/) {
    check_invariant(false, "no plan of a ring interrupts");
}

void RingJob::give_role(int index, RingRole role, int parent) {
    const bool member = ring_.roster.seat(index).role == RingRole::kMember;
    ring_.roster.assign(index, role, parent);
    ring_.riders.progress(index).begun = rides_->begun(index);
    if (member) {
        rides_->join(index);
    } else {
        rides_->set_holding(index, role == RingRole::kHold);
    }
}

void RingJob::enter(int index, int giver) {
    ring_.roster.assign(index, RingRole::kMember, ring_.roster.seat(index).parent);
    rides_->leave(index);
    Worker& entering = worker(index);
    entering.cancel();  // parameters for a ride that it does not begin
    entering.entering = true;
    const double state = bytes_ * (1 + state_sizes(spec().optimizer));
    for (const int end : {index, giver}) {
        lanes().used(end, 0, state);
    }
    entering.work =
        cluster().send(node_of(giver), node_of(index), state, [this, index, begun_s = now()] {
            Worker& entered = worker(index);
            entered.work = 0;
            entered.entering = false;
            lanes().span(index, LaneSpan::Kind::kPull, begun_s, now());
            if (running_) {
                running_->begin_member(index);
            }
        });
}

void RingJob::end_work() {
    for (Worker& worker : workers_) {
        worker.cancel();
    }
    rides_->cancel();
    running_.reset();
}

std::unique_ptr<VirtualJob> make_ring_job(VirtualCluster& cluster, Learner& learner, JobSpec spec) {
    return std::make_unique<RingJob>(cluster, learner, std::move(spec));
}

}  // namespace cohort
