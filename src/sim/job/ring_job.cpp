#include "sim/job/ring_job.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "layers/optim/update_cost.hpp"
#include "sched/plan/lease_work.hpp"
#include "sim/job/ring_job_rides.hpp"
#include "sim/job/virtual_job.hpp"

namespace cohort {

RingJob::RingJob(VirtualCluster& on, Learner& model, JobSpec job)
    : VirtualJob(on, model, std::move(job)),
      ring_(*this, spec.worker_nodes),
      ends_(std::make_unique<RoundEnd>(*this)),
      batches_(at(workers()), spec.setting.batch),
      rides_(std::make_unique<Rides>(*this)),
      effects_(session, *this),
      bytes_(spec.wire_parameter_bytes()) {
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
void RingJob::give_leases() {
    begin_next();
    if (ring_.plans.ready()) {
        if (running_) {
            ends_->skip_unbegun();
            rides_->begin();
            return;
        }
        switch_over();
    }
    while (ring_.rounds.grant(engine().plan(), session.counts().samples_applied) != nullptr) {
        begin_next();
    }
    rides_->begin();
}

void RingJob::switch_over() {
    PlanChange change = ring_.plans.take();
    log.add(EventLog::Kind::kPlan, now(), change.plan.id);
    const std::vector<Effect> effects_of = engine().install(std::move(change.plan));
    if (!change.batches.empty()) {
        check_invariant(change.batches.size() == batches_.size(), "a batch size for every worker");
        batches_ = std::move(change.batches);
    }
    effects_.carry_out(effects_of);
    session.installed();
    ring_.plans.switch_members(engine().plan());
    for (int index = 0; index < workers(); ++index) {
        if (ring_.roster.is_orphan(index)) {
            give_role(index, RingRole::kRider, ring_.roster.choose_parent(index));
        }
    }
}

VirtualLease* RingJob::take_lease(int worker) {
    const SyncPlan& plan = engine().plan();
    const std::int64_t batch = std::max<std::int64_t>(batches_[at(worker)], 1);
    std::optional<LeaseOrder> order =
        session.leases().open().take(worker, batch * steps_per_push(plan));
    if (!order) {
        return nullptr;
    }
    order->halves = session.gradients().halve(order->count);
    order->work.work = plan.work;
    if (plan.work == Work::kDelta) {
        order->work.steps = local_steps_of(order->count, batch, plan);
        order->work.lr = session.learning_rate(plan.lr_scale);
    }
    return &add_lease(worker, *order);
}

RoundLease RingJob::claim(int worker) {
    const VirtualLease* const mine = take_lease(worker);
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
    entering.give_up();  // parameters for a ride that it does not begin
    entering.entering = true;
    entering.receive(giver, spec.workload.parameter_bytes * (1 + state_sizes(spec.optimizer)),
                     [this, index, begun_s = now()] {
                         worker(index).entering = false;
                         lanes.span(index, LaneSpan::Kind::kPull, begun_s, now());
                         if (running_) {
                             running_->begin_member(index);
                         }
                     });
}

void RingJob::end_work() {
    for (Worker& worker : workers_) {
        worker.give_up();
    }
    rides_->cancel();
    running_.reset();
    effects_.carry_out(engine().stop());
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
    for (const PushId& rider : round.riders) {
        job_.ring_.riders.settle(rider);
    }
    for (const RoundMember& member : round.members) {
        job_.worker(member.worker).update_due = true;
    }
}

/// Nothing is applied: leases come back, parents still hold the gradients of riders.
void RingJob::RoundEnd::abort(const Round& round, const std::vector<ReturnReason>& reasons) {
    for (std::size_t i = 0; i < reasons.size(); ++i) {
        if (round.members[i].lease != 0) {
            unused(round.members[i].worker, round.members[i].samples, reasons[i]);
        }
    }
    booking_.abort(job_.engine(), round, reasons);
    job_.session.dropped();  // once, whatever the number of members
    job_.check_drops();
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
    return job_.learner.outcome(job_.leases_out.at(lease).computed).finite;
}

void RingJob::RoundEnd::refuse(const PushId& push) {
    const RiderGradient refused = job_.ring_.riders.settle(push);
    unused(push.worker, refused.ticket->samples, ReturnReason::kNonFinite);
    job_.session.dropped();
    job_.check_drops();
    booking_.refuse(job_.engine(), *refused.ticket);
    job_.rides_->release(push.worker, 0, *refused.parent);
}

/// For the records: a mini-batch that is not used, of which the engine has no push.
void RingJob::RoundEnd::unused(int worker, std::int64_t samples, ReturnReason reason) {
    job_.session.settled({.worker = worker, .samples = samples, .weight = 0, .returned = reason});
}

void RingJob::RoundEnd::push(std::uint64_t id) {
    const int index = job_.leases_out.at(id).worker;
    IterationEnds::End end{.lease = id, .version = computed_on_};
    if (job_.rides_->riding(index)) {
        end.version = job_.rides_->version(index);
    } else {
        Worker& member = job_.worker(index);
        member.record.compute_s = member.own_s - member.record.input_s;
        end.own_s = member.own_s;
        end.record = member.record;
    }
    job_.effects_.push(job_.iteration_ends_.pushed(end));
}

void RingJob::Worker::apply_update(Action then) {
    if (!std::exchange(update_due, false)) {
        then();
        return;
    }
    update([this, then = std::move(then)] {
        record.pull_s += job_->now() - current.begun_s;
        then();
    });
}

void RingJob::Worker::receive(int giver, double bytes, Action done) {
    for (const int end : {index_, giver}) {
        job_->lanes.used(end, 0, bytes);
    }
    current.cost = {};
    work = job_->cluster.send(job_->node_of(giver), job_->node_of(index_), bytes,
                              [this, done = std::move(done)] {
                                  work = 0;
                                  done();
                              });
}

void RingJob::Worker::give_up() {
    if (work != 0) {
        job_->lanes.used(index_, current.cost.cpu_core_s, 0);
        (void)cancel();
    }
}

}  // namespace cohort
