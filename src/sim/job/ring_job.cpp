#include "sim/job/ring_job.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "cohort/core/error.hpp"
#include "sim/job/virtual_jobs.hpp"

namespace cohort {

RingJob::RingJob(VirtualCluster& cluster, Learner& learner, JobSpec spec)
    : VirtualJob(cluster, learner, std::move(spec)), seats_(at(workers())) {
}

bool RingJob::stuck() const {
    return !running_ && std::all_of(seats_.begin(), seats_.end(), [](const Seat& seat) {
        return seat.work == 0 && seat.push == 0;
    });
}

/// The roles that a run begins with: all hold the same.
void RingJob::start_work() {
    members_ = engine().plan().cohorts.front().members;
    for (const int rider : engine().plan().cohorts.front().riders) {
        make_rider(rider);
    }
}

/// 1. What was granted begins. 2. A plan that waits is put in force when the fence is reached; the
/// ring goes on for as long as riders hand in what they work on. 3. Grants and rides.
void RingJob::deal() {
    begin_next();
    if (next_ && fence_ready()) {
        if (running_) {
            skip_unbegun();
            start_riders();
            return;
        }
        switch_over();
    }
    while (granted_.size() < kGrantedRounds && grant()) {
        begin_next();
    }
    start_riders();
}

/// False when there is nothing to train on: no member gets a lease, no rider's gradient is here.
bool RingJob::grant() {
    Round next;
    for (const int worker : members_) {
        const Lease* const taken = take_lease(worker);
        next.leases.push_back(taken == nullptr ? 0 : taken->id);
        next.samples += taken == nullptr ? 0 : taken->slice.count;
        next.steps = taken == nullptr ? next.steps : std::max(next.steps, taken->steps);
    }
    add_riders(next);
    if (next.samples == 0) {
        return false;
    }
    std::int64_t before = samples_applied();
    for (const Round& earlier : granted_) {
        before += earlier.samples;
    }
    for (const std::uint64_t id : next.leases) {
        if (Lease* const taken = lease(id)) {
            taken->steps = next.steps;
            taken->lr = engine().plan().lr_scale * spec().schedule.lr(spec().lr, before);
        }
    }
    granted_.push_back(std::move(next));
    return true;
}

void RingJob::begin_next() {
    if (running_ || granted_.empty()) {
        return;
    }
    running_ = true;
    const Round& round = granted_.front();
    std::vector<int> nodes;
    std::transform(members_.begin(), members_.end(), std::back_inserter(nodes),
                   [this](int worker) { return node_of(worker); });
    sum_ = std::make_unique<VirtualSum>(cluster(), std::move(nodes), bytes(),
                                        [this] { round_over(); });
    for (std::size_t i = 0; i < members_.size(); ++i) {
        Seat& member = seat(members_[i]);
        member.lease = round.leases[i];
        member.step = 0;
        member.own_s = 0;
        member.record = std::exchange(member.next, {});
        member.cpu = {};
        member.group = kAlone;
    }
    form_groups(round);
    start_learning(round);
    for (const int worker : members_) {
        get_ready(worker);
    }
}

/// Everybody's gradient or delta, on the parameters that all members hold.
void RingJob::start_learning(const Round& round) {
    std::vector<std::vector<int>> together(groups_.size());
    for (std::size_t i = 0; i < members_.size(); ++i) {
        Lease* const mine = lease(round.leases[i]);
        if (mine == nullptr) {
            continue;
        }
        if (const std::size_t group = seat(members_[i]).group; group != kAlone) {
            together[group].push_back(members_[i]);
        } else {
            mine->computed = learner().start(job_of(*mine, parameters_for(members_[i], 0)));
        }
    }
    for (const std::vector<int>& group : together) {
        std::vector<Learner::Job> jobs;
        for (const int worker : group) {
            jobs.push_back(job_of(held(seat(worker).lease), parameters_for(worker, 0)));
        }
        const std::vector<Learner::WorkId> started = learner().start_group(jobs);
        for (std::size_t i = 0; i < group.size(); ++i) {
            held(seat(group[i]).lease).computed = started[i];
        }
    }
}

void RingJob::round_over() {
    note_round(sum_->bytes_of_a_member());
    running_ = false;
    sum_.reset();
    groups_.clear();
    const Round round = std::move(granted_.front());
    granted_.pop_front();
    settle(round);
    happened();
}

/// Feeds the pushes of the round to the engine, which must fire exactly once.
void RingJob::settle(const Round& round) {
    if (!finite(round)) {
        void_round(round);
        return;
    }
    const std::int64_t computed_on = engine().version();
    for (const RiderPush& rider : round.riders) {
        engine().leased(rider.worker, rider.lease, samples_of(rider.lease));
    }
    for (std::size_t i = 0; i < members_.size(); ++i) {
        tell_engine(members_[i], round.leases[i]);
    }
    for (const RiderPush& rider : round.riders) {
        push({.lease = rider.lease, .version = rider.version, .own_s = 0, .record = {}});
        carry_out(engine().idle(rider.worker));  // no round waits for it
        seat(rider.worker).idle = true;
    }
    for (std::size_t i = 0; i < members_.size(); ++i) {
        Seat& member = seat(members_[i]);
        if (round.leases[i] != 0) {
            member.record.compute_s = member.own_s - member.record.input_s;
            push({.lease = round.leases[i],
                  .version = computed_on,
                  .own_s = member.own_s,
                  .record = member.record});
        }
        member.update_due = true;
    }
    check_invariant(engine().version() == computed_on + 1 && engine().pending() == 0,
                    "a round is one update");
}

/// Of the members: riders' are looked at before they are granted.
bool RingJob::finite(const Round& round) {
    return std::all_of(round.leases.begin(), round.leases.end(), [this](std::uint64_t id) {
        const Lease* const one = lease(id);
        return one == nullptr || learner().outcome(one->computed).finite;
    });
}

/// Nothing is applied: leases come back, parents still hold the gradients of riders.
void RingJob::void_round(const Round& round) {
    for (std::size_t i = 0; i < members_.size(); ++i) {
        const int worker = members_[i];
        tell_engine(worker, round.leases[i]);
        if (const Lease* const mine = lease(round.leases[i])) {
            const ReturnReason reason = learner().outcome(mine->computed).finite
                                            ? ReturnReason::kVoidRound
                                            : ReturnReason::kNonFinite;
            unused(worker, mine->slice.count, reason);
            carry_out(engine().take_back(worker, reason));
        }
    }
    dropped();  // once, whatever the number of members
    ready_.insert(ready_.begin(), round.riders.begin(), round.riders.end());
}

/// Who takes part with samples, and who only passes on.
void RingJob::tell_engine(int worker, std::uint64_t lease) {
    Seat& member = seat(worker);
    const bool idle = lease == 0;
    if (idle && !member.idle) {
        carry_out(engine().idle(worker));
    } else if (!idle && member.idle) {
        carry_out(engine().resumed(worker));
    }
    member.idle = idle;
    if (!idle) {
        engine().leased(worker, lease, samples_of(lease));
    }
}

VirtualJob::Lease& RingJob::held(std::uint64_t lease_id) {
    Lease* const one = lease(lease_id);
    if (one == nullptr) {
        throw std::logic_error("a lease of a round is out");
    }
    return *one;
}

std::int64_t RingJob::samples_of(std::uint64_t lease_id) {
    return held(lease_id).slice.count;
}

/// The riders whose gradients are in the update go on with its parameters, from who held them.
void RingJob::fired(const Fire& fire) {
    for (const Fire::Release& release : fire.releases) {
        Seat& rider = seat(release.worker);
        if (rider.riding && !stopping()) {
            release_rider(release.worker, release.lag, rider.pushes_to);
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

void RingJob::end_work() {
    for (Seat& seat : seats_) {
        for (ClusterWork* work : {&seat.work, &seat.push}) {
            if (*work != 0) {
                cluster().cancel(std::exchange(*work, 0));
            }
        }
    }
    sum_.reset();
    groups_.clear();
    granted_.clear();
    parked_.clear();
    ready_.clear();
    next_.reset();
    running_ = false;
}

bool RingJob::is_member(int worker) const {
    return std::find(members_.begin(), members_.end(), worker) != members_.end();
}

std::unique_ptr<VirtualJob> make_ring_job(VirtualCluster& cluster, Learner& learner, JobSpec spec) {
    return std::make_unique<RingJob>(cluster, learner, std::move(spec));
}

}  // namespace cohort
