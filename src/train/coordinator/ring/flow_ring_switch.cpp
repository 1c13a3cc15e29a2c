// Plans: who is a member and who rides, and the fence at which that changes.
//
// 1. install: who will be a member starts nothing new (kHold); who would lose its parent gets
//    another one. Both say what they had begun. The ring goes on meanwhile.
// 2. The fence is ready when all of that has been applied: no new grants then, and the members skip
//    the granted round that they have not begun.
// 3. When the granted rounds are over, nothing is under way: the engine gets the plan, leaving
//    members ride on with the parameters they have, entering ones get everything from a member.
#include <algorithm>
#include <utility>
#include <variant>

#include "cohort/core/error.hpp"
#include "train/coordinator/ring/flow_ring.hpp"

namespace cohort {
namespace {

/// Leases that a worker holds: two in rounds that are under way, two on their way through its
/// loader.
constexpr int kLeasesAhead = 4;

bool contains(const std::vector<int>& list, int worker) {
    return std::find(list.begin(), list.end(), worker) != list.end();
}

}  // namespace

bool RingFlow::is_member(int worker) const {
    return contains(members_, worker);
}

std::vector<int> RingFlow::members_of(const SyncPlan& plan) const {
    std::vector<int> members;
    for (const int worker : plan.cohorts.front().members) {
        if (seats_[static_cast<std::size_t>(worker)].live) {
            members.push_back(worker);
        }
    }
    return members;
}

/// The roles that a run begins with: all hold the same.
void RingFlow::place(const SyncPlan& plan) {
    members_ = members_of(plan);
    sizes_.assign(seats_.size(), parts_.options.batch);
    set_leases(false);
    for (const int rider : plan.cohorts.front().riders) {
        seat(rider).reference = books_.engine().reference_batches();
        give_role(rider, {.role = RingRole::kRider, .parent = choose_parent(rider, members_)});
    }
}

void RingFlow::install(SyncPlan plan, std::vector<std::int64_t> batches) {
    check_invariant(plan.cohorts.size() == 1, "a ring has one cohort");
    if (members_of(plan).empty()) {
        return;  // all of them were lost meanwhile: the next plan knows
    }
    queued_ = Queued{std::move(plan), std::move(batches)};
    halted_ = false;
    if (!recovery_) {
        prepare_fence();
        go_on();
    }
}

/// Step 1, again for every plan that takes the place of one that waits.
void RingFlow::prepare_fence() {
    const std::vector<int> next = members_of(queued_->plan);
    if (next.empty()) {
        queued_.reset();
        return;
    }
    for (const FenceRole& order : fence_roles(members_, next, ring_seats())) {
        seat(order.worker).flush = true;
        give_role(order.worker, {.role = order.role, .parent = order.parent});
    }
}

/// Step 2.
bool RingFlow::fence_ready() const {
    return std::all_of(seats_.begin(), seats_.end(), [](const Seat& seat) {
        return !seat.live || !seat.flush || (seat.taken && seat.settled >= seat.begun);
    });
}

/// Rounds that are granted and have not begun need not: unless they leave something behind, which
/// the books count on.
void RingFlow::halt() {
    const bool bare = std::all_of(granted_.begin(), granted_.end(), [](const Granted& one) {
        return one.extras.evaluation == 0 && one.extras.snapshot.empty();
    });
    if (!halted_ && granted_.size() > 1 && bare) {
        halted_ = true;
        for (const int worker : members_) {
            send(worker, RingMessageKind::kHalt, HaltOrder{epoch_, rounds_});
        }
    }
}

/// The members have skipped what was granted up to round `last`: as if it had not been. Members
/// keep the leases, parents the gradients of riders.
void RingFlow::skip(std::uint64_t last) {
    while (!granted_.empty() && granted_.back().order.round <= last) {
        const Granted granted = std::move(granted_.back());
        granted_.pop_back();
        withdrawn(granted);
        for (const RoundMember& member : granted.order.members) {
            if (member.lease != 0 && seat(member.worker).live) {
                unused_[static_cast<std::size_t>(member.worker)].push_front(
                    {.lease = member.lease, .epoch = granted.epoch, .count = member.samples});
            } else if (member.lease != 0) {
                give_back(member.worker, member.lease, ReturnReason::kLost);
            }
        }
        put_back(granted);
    }
}

/// Step 3.
void RingFlow::switch_over() {
    Queued next = std::move(*queued_);
    queued_.reset();
    halted_ = false;
    note_departures();
    UpdateEngine& engine = books_.engine();
    const Work work = engine.plan().work;
    for (const Effect& effect : engine.install(std::move(next.plan))) {
        check_invariant(std::holds_alternative<ReleaseOne>(effect), "a fence has nothing pending");
    }
    const SyncPlan& plan = engine.plan();
    const std::vector<int> before = members_;
    members_ = members_of(plan);
    if (!next.batches.empty()) {
        batches_ = std::move(next.batches);
    }
    set_leases(work != plan.work);
    seat_members(before);
    for (Seat& seat : seats_) {
        seat.flush = false;
    }
    adopt_riders();
    books_.installed(plan);
}

/// Sizes of leases under the plan in force. Who holds some of another size or kind that it has not
/// begun gets new ones; a rider goes on with those it has.
void RingFlow::set_leases(bool other_work) {
    const SyncPlan& plan = books_.engine().plan();
    LeaseDesk& desk = books_.leases();
    const std::vector<std::int64_t> before = sizes_;
    sizes_.assign(seats_.size(), parts_.options.batch);
    for (std::size_t worker = 0; worker < sizes_.size(); ++worker) {
        sizes_[worker] = batches_.empty() ? sizes_[worker] : batches_[worker];
        const bool delta =
            plan.work == Work::kDelta && contains(members_, static_cast<int>(worker));
        sizes_[worker] *= delta ? plan.local_steps : 1;
    }
    desk.set_batches(sizes_);
    desk.set_ahead(kLeasesAhead, !plan.cohorts.front().riders.empty());
    for (std::size_t index = 0; index < seats_.size(); ++index) {
        const auto worker = static_cast<int>(index);
        const bool riding = seats_[index].role == RingRole::kRider && !contains(members_, worker);
        const bool other = other_work || before[index] != sizes_[index];
        if (!seats_[index].live || riding || !other) {
            continue;
        }
        RevokeOrder order{.leases = desk.held_leases(worker), .version = 0};
        for (const std::uint64_t lease : order.leases) {
            give_back(worker, lease, ReturnReason::kInterrupted);
        }
        unused_[index].clear();
        send(worker, MessageKind::kRevoke, order);
    }
}

/// Leaving members become riders with what they have, entering ones get all that a member holds.
void RingFlow::seat_members(const std::vector<int>& before) {
    const MemberChange change = change_members(before, members_);
    for (const int worker : change.entering) {
        bring(worker, change.giver);
    }
    for (const int worker : change.leaving) {
        if (seat(worker).live) {
            seat(worker).reference = books_.engine().reference_batches();
            give_role(worker,
                      {.role = RingRole::kRider, .parent = choose_parent(worker, members_)});
        }
    }
}

/// Makes a worker a member with everything that `giver` holds.
std::uint64_t RingFlow::bring(int worker, int giver) {
    const std::uint64_t number =
        give_role(worker, {.role = RingRole::kMember, .await_state = true, .giver = giver});
    seat(worker).afresh = false;
    send(giver, RingMessageKind::kSendState,
         SendStateOrder{.epoch = epoch_, .number = number, .worker = worker, .full = true});
    return number;
}

}  // namespace cohort
