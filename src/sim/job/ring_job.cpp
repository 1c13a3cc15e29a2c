#include "sim/job/ring_job.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "optim/update_cost.hpp"
#include "sim/job/ring_job_parts.hpp"
#include "sim/job/virtual_job.hpp"

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

/// The gradients of riders were looked at before they were granted.
void RingJob::RoundEnd::settle(const Round& round) {
    std::vector<ReturnReason> reasons;
    for (const RoundMember& member : round.members) {
        reasons.push_back(member.lease == 0 || finite(member.lease) ? ReturnReason::kVoidRound
                                                                    : ReturnReason::kNonFinite);
    }
    if (std::find(reasons.begin(), reasons.end(), ReturnReason::kNonFinite) == reasons.end()) {
        apply(round);
    } else {
        abort(round, reasons);
    }
}

void RingJob::RoundEnd::apply(const Round& round) {
    computed_on_ = job_.engine().version();
    booking_.apply(job_.engine(), round);
    for (const RoundRider& rider : round.riders) {
        job_.ring_.riders.settle(rider.push);
    }
    for (const RoundMember& member : round.members) {
        job_.worker(member.worker).update_due = true;
    }
}

/// Nothing is applied: leases come back, parents still hold the gradients of riders.
void RingJob::RoundEnd::abort(const Round& round, const std::vector<ReturnReason>& reasons) {
    for (std::size_t i = 0; i < reasons.size(); ++i) {
        if (round.members[i].lease != 0) {
            job_.unused(round.members[i].worker, round.members[i].samples, reasons[i]);
        }
    }
    booking_.abort(job_.engine(), round, reasons);
    job_.dropped();  // once, whatever the number of members
    job_.ring_.riders.put_back(round);
}

void RingJob::RoundEnd::skip_unbegun() {
    while (job_.ring_.rounds.rounds().size() > 1) {
        const Round skipped = job_.ring_.rounds.skip_newest();
        for (const RoundMember& member : skipped.members) {
            if (member.lease != 0) {
                job_.give_back(member.lease, ReturnReason::kStop);  // nobody has worked on it
            }
        }
    }
}

bool RingJob::RoundEnd::finite(std::uint64_t lease) {
    return job_.learner().outcome(job_.lease_out(lease).computed).finite;
}

void RingJob::RoundEnd::refuse(const PushId& push) {
    const RiderGradient refused = job_.ring_.riders.settle(push);
    job_.unused(push.worker, refused.ticket->samples, ReturnReason::kNonFinite);
    job_.dropped();
    booking_.refuse(job_.engine(), *refused.ticket);
    job_.rides_->release(push.worker, 0, *refused.parent);
}

void RingJob::RoundEnd::push(std::uint64_t id) {
    const int index = job_.lease_out(id).worker;
    if (job_.rides_->riding(index)) {
        job_.push({.lease = id, .version = job_.rides_->version(index), .own_s = 0, .record = {}});
        return;
    }
    Worker& member = job_.worker(index);
    member.record.compute_s = member.own_s - member.record.input_s;
    job_.push(
        {.lease = id, .version = computed_on_, .own_s = member.own_s, .record = member.record});
}

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
