// Plans: who is a member and who rides, and the fence at which that changes.
//
// 1. install: who will be a member starts nothing new (kHold); who would lose its parent gets
//    another one. The ring goes on until what both had begun has been applied.
// 2. Then the granted round that has not begun is skipped, and when the one under way is over the
//    engine gets the plan. Leaving members ride on with the parameters they have, entering ones get
//    everything from a member.
#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "optim/update_cost.hpp"
#include "sim/job/ring_job.hpp"

namespace cohort {

void RingJob::install(PlanChange change) {
    check_invariant(change.plan.cohorts.size() == 1, "a ring has one cohort");
    if (next_ && change.batches.empty()) {
        change.batches = std::move(next_->batches);
    }
    prepare_fence(change.plan.cohorts.front().members);
    next_ = std::move(change);
}

/// Step 1, again for every plan that takes the place of one that waits.
void RingJob::prepare_fence(const std::vector<int>& next) {
    for (const FenceRole& order : fence_roles(members_, next, ring_seats())) {
        Seat& rider = seat(order.worker);
        rider.flush = true;
        rider.role = order.role;
        rider.parent = order.parent;
        if (order.role == RingRole::kHold) {
            parked_.erase(order.worker);
        } else if (rider.ready) {
            parked_.insert(order.worker);
        }
    }
}

bool RingJob::fence_ready() const {
    return std::none_of(seats_.begin(), seats_.end(),
                        [](const Seat& seat) { return seat.flush && seat.riding; });
}

/// As if they had not been granted.
void RingJob::skip_unbegun() {
    while (granted_.size() > 1) {
        const Round skipped = std::move(granted_.back());
        granted_.pop_back();
        for (const std::uint64_t lease : skipped.leases) {
            if (lease != 0) {
                give_back(lease, ReturnReason::kStop);  // nobody has worked on it
            }
        }
        ready_.insert(ready_.begin(), skipped.riders.begin(), skipped.riders.end());
    }
}

/// Step 2.
void RingJob::switch_over() {
    put_in_force(*std::exchange(next_, std::nullopt));
    const std::vector<int> before =
        std::exchange(members_, std::vector<int>(engine().plan().cohorts.front().members));
    const MemberChange change = change_members(before, members_);
    for (const int worker : change.entering) {
        bring(worker, change.giver);
    }
    for (const int worker : change.leaving) {
        make_rider(worker);
    }
    for (int worker = 0; worker < workers(); ++worker) {
        Seat& one = seat(worker);
        one.flush = false;
        if (one.role == RingRole::kRider && !is_member(one.parent)) {
            one.parent = choose_parent(worker, members_, ring_seats());
        }
    }
}

/// Makes a worker a member with everything that `giver` holds.
void RingJob::bring(int worker, int giver) {
    Seat& one = seat(worker);
    if (one.work != 0) {  // parameters for a ride that it does not begin
        cluster().cancel(one.work);
    }
    one.role = RingRole::kMember;
    one.ready = false;
    one.parameters.reset();
    one.entering = true;
    const double state = bytes() * (1 + state_sizes(spec().optimizer));
    for (const int end : {worker, giver}) {
        lanes().used(end, 0, state);
    }
    one.work =
        cluster().send(node_of(giver), node_of(worker), state, [this, worker, begun_s = now()] {
            Seat& entered = seat(worker);
            entered.work = 0;
            entered.entering = false;
            lanes().span(worker, LaneSpan::Kind::kPull, begun_s, now());
            if (running_) {
                begin_member(worker);
            }
        });
}

/// With the parameters of now, which it has; what it has not worked off of them it works off first.
void RingJob::make_rider(int worker) {
    Seat& one = seat(worker);
    one.role = RingRole::kRider;
    one.parent = choose_parent(worker, members_, ring_seats());
    one.parameters = parameters_for(worker, 0);
    one.version = engine().version();
    park(worker);
}

}  // namespace cohort
