// Losses and returns.
//
// A rider that is lost gives its leases back. A member takes the ring with it, and so does who has
// left it while an entering one awaits its state:
// 1. kRecover goes to the members left. Each ends its round, complete or broken, forgets the grants
//    of older epochs and says how far it is.
// 2. A round that some have completed is committed: the others get everything from one of them.
//    Only then it is booked, so that a round counts which a living member has.
// 3. Rounds that nobody has completed are void: their leases come back, the gradients of riders
//    stay with their parents.
// 4. Riders of the lost member get another parent; what they had begun is void.
// 5. The ring goes on with who is left, until the next plan.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "cohort/core/error.hpp"
#include "train/coordinator/ring/flow_ring.hpp"

namespace cohort {

void RingFlow::lost(int worker) {
    Seat& gone = seat(worker);
    if (!gone.live) {
        gone.returned = false;  // lost again before it was let in
        return;
    }
    gone.live = false;
    gone.left = true;
    gone.returned = false;
    gone.afresh = false;
    gone.flush = false;
    books_.leases().set_live(worker, false);
    forget_pushes(worker);
    return_leases(worker);
    unused_[static_cast<std::size_t>(worker)].clear();
    ids_.forget(worker);
    ask_others(worker);
    const bool member = gone.role == RingRole::kMember;
    gone.role = RingRole::kHold;
    if (member) {
        std::erase(members_, worker);
    }
    if (member || awaited_from(worker)) {
        start_recovery();
        return;
    }
    note_departures();
    if (!recovery_) {
        adopt_riders();
        if (queued_) {
            prepare_fence();
        }
    }
    if (later_ && !recovery_) {
        ask_now(*std::exchange(later_, std::nullopt));
    }
    go_on();
}

/// Whether a member may still wait for what this worker, which has left the ring, was to send.
bool RingFlow::awaited_from(int worker) const {
    return std::any_of(members_.begin(), members_.end(), [&](int member) {
        const Seat& one = seats_[static_cast<std::size_t>(member)];
        return !one.taken && one.giver == worker;
    });
}

/// All that it holds but what is in a round, which may still be applied.
void RingFlow::return_leases(int worker) {
    std::vector<std::uint64_t> granted;
    for (const Granted& round : granted_) {
        for (const RoundMember& member : round.order.members) {
            granted.push_back(member.lease);
            for (const RiderPush& rider : member.riders) {
                granted.push_back(work_.at(rider.push).ticket->lease);
            }
        }
    }
    for (const std::uint64_t lease : books_.leases().held_leases(worker)) {
        if (std::find(granted.begin(), granted.end(), lease) == granted.end()) {
            give_back(worker, lease, ReturnReason::kLost);
        }
    }
}

/// Tells the engine of losses once no round holds anything of theirs.
void RingFlow::note_departures() {
    UpdateEngine& engine = books_.engine();
    for (std::size_t index = 0; index < seats_.size(); ++index) {
        const auto worker = static_cast<int>(index);
        Seat& gone = seats_[index];
        const bool held = std::any_of(granted_.begin(), granted_.end(), [&](const Granted& round) {
            const auto& members = round.order.members;
            return std::any_of(members.begin(), members.end(),
                               [&](const RoundMember& one) { return one.worker == worker; }) ||
                   std::any_of(round.riders.begin(), round.riders.end(),
                               [&](const PushId& push) { return push.worker == worker; });
        });
        if (gone.left && !held) {
            gone.left = false;
            check_invariant(engine.lost(worker).empty(), "nothing is pending in a ring");
            if (std::exchange(gone.returned, false)) {
                joined(worker);
            }
        }
    }
}

/// A worker that was lost begins anew as a rider; the next plan may make it a member.
void RingFlow::joined(int worker) {
    Seat& back = seat(worker);
    if (back.left) {
        back.returned = true;  // when its last round is settled
        return;
    }
    for (const Effect& effect : books_.engine().joined(worker)) {
        check_invariant(std::holds_alternative<ReleaseOne>(effect), "who joins only gets released");
    }
    back = {.idle = true,
            .pushes = back.pushes,
            .role = RingRole::kRider,
            .afresh = true,
            .reference = books_.engine().reference_batches()};
    books_.leases().set_live(worker, true);
    send(worker, MessageKind::kJoin,
         JoinOrder{.incarnation = books_.engine().incarnation(worker),
                   .version = books_.engine().version(),
                   .leases_up_to = books_.leases().newest()});
    give_role(
        worker,
        {.role = RingRole::kRider, .parent = choose_parent(worker, members_), .afresh = true});
    go_on();
}

/// Step 1; begins again when another member is lost meanwhile.
void RingFlow::start_recovery() {
    if (members_.empty()) {
        fail<PeerError>({.where = "ring",
                         .what = "all members are lost",
                         .hint = "a restart from the last checkpoint"});
    }
    std::optional<RoundReport> known;
    if (recovery_) {
        known = std::move(recovery_->report);
    }
    halted_ = false;
    recovery_.emplace();
    recovery_->report = std::move(known);
    ++epoch_;
    for (const int worker : members_) {
        send(worker, RingMessageKind::kRecover, RecoverOrder{epoch_});
    }
}

bool RingFlow::all_answered() const {
    return recovery_->answers.size() == members_.size();
}

void RingFlow::recovered(const Recovered& answer) {
    if (!recovery_ || answer.epoch != epoch_) {
        return;
    }
    recovery_->answers.push_back(answer);
    if (all_answered()) {
        bring_up();
        if (recovery_->bringing.empty()) {
            end_recovery();
        }
    }
}

/// Step 2.
void RingFlow::bring_up() {
    const auto& answers = recovery_->answers;
    const Recovered& best =
        *std::max_element(answers.begin(), answers.end(),
                          [](const auto& a, const auto& b) { return a.round < b.round; });
    if (best.round < reported_) {
        fail<PeerError>({.where = "ring",
                         .what = "the only member with the newest parameters is lost",
                         .expected = fmt::format("round {}", reported_),
                         .got = fmt::format("round {}", best.round),
                         .hint = "a restart from the last checkpoint"});
    }
    for (const Recovered& answer : answers) {
        if (answer.round < best.round) {
            recovery_->bringing.push_back(bring(answer.worker, best.worker));
        } else if (answer.report.round == best.round) {
            recovery_->report = answer.report;
        }
    }
}

/// Steps 2 to 5, when all members hold the same. What the rounds were to leave behind (evaluation,
/// snapshot) the books have given up when they heard of the loss.
void RingFlow::end_recovery() {
    const Recovery done = std::move(*recovery_);
    recovery_.reset();
    const std::uint64_t round = done.answers.empty() ? 0 : newest_round(done);
    if (!granted_.empty() && granted_.front().order.round == round) {
        const Granted granted = std::move(granted_.front());
        granted_.pop_front();
        check_invariant(done.report && done.report->round == round, "a round has its report");
        settle(granted, *done.report);
    }
    release_riders(done, round);
    for (const Granted& granted : std::exchange(granted_, {})) {
        void_granted(granted);
    }
    note_departures();
    adopt_riders();
    if (queued_) {
        prepare_fence();
    }
    if (later_) {
        ask_now(*std::exchange(later_, std::nullopt));
    }
}

/// Who has completed the newest round has sent its parameters to the riders whose gradients it
/// held; a member that was brought up has not, and still holds them.
void RingFlow::release_riders(const Recovery& done, std::uint64_t round) {
    for (std::size_t index = 0; index < seats_.size(); ++index) {
        Seat& rider = seats_[index];
        const bool released =
            std::any_of(done.answers.begin(), done.answers.end(), [&](const Recovered& answer) {
                return answer.worker == rider.giver && answer.report.round == round;
            });
        if (!rider.live || rider.fired_in != round || round == 0 || released) {
            continue;
        }
        rider.fired_in = 0;
        rider.afresh = true;
        rider.begun = std::max(rider.begun, rider.settled);
        if (seat(rider.giver).live) {
            const auto worker = static_cast<int>(index);
            discard(rider.giver, {.worker = worker,
                                  .incarnation = books_.engine().incarnation(worker),
                                  .sequence = rider.settled});
        }
    }
}

std::uint64_t RingFlow::newest_round(const Recovery& done) {
    std::uint64_t newest = 0;
    for (const Recovered& answer : done.answers) {
        newest = std::max(newest, answer.round);
    }
    return newest;
}

/// Step 3. Members that have not begun a lease skip its batch.
void RingFlow::void_granted(const Granted& granted) {
    withdrawn(granted);
    for (const RoundMember& member : granted.order.members) {
        if (member.lease == 0) {
            continue;
        }
        const bool live = seat(member.worker).live;
        give_back(member.worker, member.lease,
                  live ? ReturnReason::kVoidRound : ReturnReason::kLost);
        if (live) {
            send(member.worker, MessageKind::kRevoke,
                 RevokeOrder{.leases = {member.lease}, .version = books_.engine().version()});
        }
    }
    put_back(granted);
}

/// Step 4: riders whose parent, or who holds what they had begun, is no member any more, or who
/// were sent their parameters by somebody that is lost.
void RingFlow::adopt_riders() {
    for (std::size_t index = 0; index < seats_.size(); ++index) {
        Seat& rider = seats_[index];
        const auto worker = static_cast<int>(index);
        if (!rider.live || rider.role == RingRole::kMember) {
            continue;
        }
        const std::vector<PushId> gone = stranded(worker);
        const bool underway = rider.flush && !is_member(rider.parent_before);
        if (gone.empty() && !underway && is_member(rider.parent) && seat(rider.giver).live) {
            continue;
        }
        for (const PushId& push : gone) {
            if (const std::optional<Ticket> ticket = work_.at(push).ticket) {
                give_back(worker, ticket->lease, ReturnReason::kLost);
            }
            take_off(push);
        }
        rider.afresh = true;
        const int parent = is_member(rider.parent) ? rider.parent : choose_parent(worker, members_);
        give_role(worker, {.role = rider.role, .parent = parent, .afresh = true});
    }
}

/// Pushes of a rider that lie with somebody who takes no part in rounds.
std::vector<PushId> RingFlow::stranded(int rider) const {
    std::vector<PushId> pushes;
    for (const auto& [push, work] : work_) {
        if (push.worker == rider && work.parent && !is_member(*work.parent)) {
            pushes.push_back(push);
        }
    }
    return pushes;
}

}  // namespace cohort
