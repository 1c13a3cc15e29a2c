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
      booking_(workers(), ring_.riders, *this),
      rides_(std::make_unique<Rides>(*this)) {
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
            skip_unbegun();
            rides_->begin();
            return;
        }
        switch_over();
    }
    while (grant()) {
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

bool RingJob::grant() {
    const Round* const next = ring_.rounds.grant(engine().plan(), samples_applied());
    for (std::size_t i = 0; next != nullptr && i < next->members.size(); ++i) {
        if (Lease* const mine = lease(next->members[i].lease)) {
            mine->steps = next->steps;
            mine->lr = next->lr;
        }
    }
    return next != nullptr;
}

RoundLease RingJob::claim(int worker) {
    const Lease* const mine = take_lease(worker);
    return mine == nullptr
               ? RoundLease()
               : RoundLease{.lease = mine->id, .samples = mine->slice.count, .steps = mine->steps};
}

/// A gradient that is not finite: its rider goes on with new parameters.
bool RingJob::usable(const PushId& push) {
    const PushTicket& ticket = *ring_.riders.at(push).ticket;
    if (finite(ticket.lease)) {
        return true;
    }
    unused(push.worker, ticket.samples, ReturnReason::kNonFinite);
    dropped();
    booking_.refuse(engine(), ticket);
    const RiderGradient refused = ring_.riders.settle(push);
    rides_->release(push.worker, 0, *refused.parent);
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
    const Round round = ring_.rounds.take_oldest();
    const std::vector<ReturnReason> reasons = reasons_to_abort(round);
    if (reasons.empty()) {
        computed_on_ = engine().version();
        booking_.apply(engine(), round);
        for (const RoundRider& rider : round.riders) {
            ring_.riders.settle(rider.push);
        }
        for (const RoundMember& member : round.members) {
            worker(member.worker).update_due = true;
        }
    } else {
        abort(round, reasons);
    }
    happened();
}

/// By member; empty when all gradients are finite. Riders' are looked at before they are granted.
std::vector<ReturnReason> RingJob::reasons_to_abort(const Round& round) {
    std::vector<ReturnReason> reasons;
    bool all_finite = true;
    for (const RoundMember& member : round.members) {
        const bool usable = member.lease == 0 || finite(member.lease);
        all_finite = all_finite && usable;
        reasons.push_back(usable ? ReturnReason::kVoidRound : ReturnReason::kNonFinite);
    }
    return all_finite ? std::vector<ReturnReason>() : reasons;
}

/// Nothing is applied: leases come back, parents still hold the gradients of riders.
void RingJob::abort(const Round& round, const std::vector<ReturnReason>& reasons) {
    for (std::size_t i = 0; i < reasons.size(); ++i) {
        if (round.members[i].lease != 0) {
            unused(round.members[i].worker, round.members[i].samples, reasons[i]);
        }
    }
    booking_.abort(engine(), round, reasons);
    dropped();  // once, whatever the number of members
    ring_.riders.put_back(round);
}

/// As if they had not been granted.
void RingJob::skip_unbegun() {
    while (ring_.rounds.rounds().size() > 1) {
        const Round skipped = ring_.rounds.skip_newest();
        for (const RoundMember& member : skipped.members) {
            if (member.lease != 0) {
                give_back(member.lease, ReturnReason::kStop);  // nobody has worked on it
            }
        }
    }
}

void RingJob::push(std::uint64_t id) {
    const int index = lease_out(id).worker;
    if (rides_->riding(index)) {
        VirtualJob::push(
            {.lease = id, .version = rides_->version(index), .own_s = 0, .record = {}});
        return;
    }
    Worker& member = worker(index);
    member.record.compute_s = member.own_s - member.record.input_s;
    VirtualJob::push(
        {.lease = id, .version = computed_on_, .own_s = member.own_s, .record = member.record});
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

/// Only the samples weigh, in gradients and deltas alike: a plan's weights are for servers.
std::vector<double> RingJob::coefficients(const Fire& fire) const {
    std::vector<double> shares;
    for (const FiredPush& push : fire.pushes) {
        shares.push_back(static_cast<double>(push.ticket.samples) /
                         static_cast<double>(fire.samples));
    }
    return shares;
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
    const double state = bytes() * (1 + state_sizes(spec().optimizer));
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
