#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <ranges>
#include <span>
#include <vector>

#include "cohort/sched/plan.hpp"
#include "sched/plan/ring_rules.hpp"
#include "sched/session/ring/round.hpp"

namespace cohort {

/// Who is a member of a ring, who rides with whom, and who is lost. Pure.
class RingRoster {
public:
    /// All are live members. @param nodes by worker
    explicit RingRoster(const std::vector<int>& nodes) {
        for (const int node : nodes) {
            seats_.push_back({.node = node});
        }
    }

    /// In ring order.
    [[nodiscard]] const std::vector<int>& members() const noexcept { return members_; }
    [[nodiscard]] bool is_member(int worker) const {
        return std::find(members_.begin(), members_.end(), worker) != members_.end();
    }
    [[nodiscard]] int workers() const noexcept { return static_cast<int>(seats_.size()); }
    [[nodiscard]] const RingSeat& seat(int worker) const { return seats_.at(index(worker)); }
    [[nodiscard]] std::span<const RingSeat> seats() const noexcept { return seats_; }
    /// Live ones of the plan's.
    [[nodiscard]] std::vector<int> members_of(const SyncPlan& plan) const {
        const std::vector<int>& listed = plan.cohorts.front().members;
        std::vector<int> members;
        std::copy_if(listed.begin(), listed.end(), std::back_inserter(members),
                     [this](int worker) { return seat(worker).live; });
        return members;
    }

    /// A member for a rider's gradients.
    [[nodiscard]] int choose_parent(int rider) const {
        return cohort::choose_parent(rider, members_, seats_);
    }
    /// A live worker rides or holds and its parent is no member.
    [[nodiscard]] bool is_orphan(int worker) const {
        const RingSeat& one = seat(worker);
        return one.live && one.role != RingRole::kMember && !is_member(one.parent);
    }

    void set_members(const SyncPlan& plan) { members_ = members_of(plan); }
    void assign(int worker, RingRole role, int parent) {
        seats_.at(index(worker)).role = role;
        seats_.at(index(worker)).parent = parent;
    }

    /// @return whether it had the role of a member
    bool lose(int worker) {
        RingSeat& gone = seats_.at(index(worker));
        const bool member = gone.role == RingRole::kMember;
        gone.live = false;
        gone.role = RingRole::kHold;
        if (member) {
            std::erase(members_, worker);
        }
        return member;
    }

    /// No member is left that can go on: all live workers become riders without a parent, those
    /// that were about to be members too.
    void disband() {
        for (RingSeat& seat : seats_) {
            seat.role = seat.live ? RingRole::kRider : seat.role;
        }
        members_.clear();
    }
    /// The ring goes on with this worker alone.
    void appoint(int worker) { members_ = {worker}; }

    /// It is back, as a rider.
    void join(int worker) {
        seats_.at(index(worker)).live = true;
        assign(worker, RingRole::kRider, 0);
    }

private:
    [[nodiscard]] static std::size_t index(int worker) { return static_cast<std::size_t>(worker); }

    std::vector<RingSeat> seats_;  ///< by worker
    std::vector<int> members_;
};

/// A rider's push that is not settled. It is complete when its ticket is received and a parent
/// holds its gradient.
struct RiderGradient {
    std::optional<PushTicket> ticket;
    std::uint32_t epoch = 0;  ///< of its lease
    std::optional<int> parent;
    bool granted = false;
};

/// How far a worker is, as a rider.
struct RiderProgress {
    bool taken = true;          ///< it has taken its newest role
    std::uint64_t begun = 0;    ///< last push that it had begun then
    std::uint64_t settled = 0;  ///< last push that was applied, refused or void
    bool flush = false;         ///< a fence waits for what it had begun
    [[nodiscard]] bool flushed() const noexcept { return !flush || (taken && settled >= begun); }
};

/// Follows the pushes of riders from ticket and gradient until they are applied, refused or void.
/// Pure.
class RiderTracker {
public:
    explicit RiderTracker(int workers) : riders_(static_cast<std::size_t>(workers)) {}

    void add_ticket(const PushTicket& ticket, std::uint32_t epoch = 0) {
        RiderGradient& gradient = gradients_[ticket.id];
        gradient.ticket = ticket;
        gradient.epoch = epoch;
        if (gradient.parent) {
            ready_.push_back(ticket.id);
        }
    }

    void add_gradient(const PushId& push, int parent) {
        RiderGradient& gradient = gradients_[push];
        gradient.parent = parent;
        if (gradient.ticket) {
            ready_.push_back(push);
        }
    }

    /// Complete and not granted, in order of arrival.
    [[nodiscard]] const std::deque<PushId>& ready() const noexcept { return ready_; }
    [[nodiscard]] const RiderGradient& at(const PushId& push) const { return gradients_.at(push); }
    /// Null for a push that is not known, or is settled.
    [[nodiscard]] const RiderGradient* find(const PushId& push) const {
        const auto found = gradients_.find(push);
        return found == gradients_.end() ? nullptr : &found->second;
    }

    /// Pushes of a rider that are not settled.
    [[nodiscard]] std::vector<PushId> pushes_of(int rider) const {
        std::vector<PushId> pushes;
        for (const auto& [push, gradient] : gradients_) {
            if (push.worker == rider) {
                pushes.push_back(push);
            }
        }
        return pushes;
    }

    [[nodiscard]] bool settled(const PushId& push) const {
        return push.sequence <= progress(push.worker).settled;
    }

    /// The push is part of a round from now on.
    void grant(const PushId& push) {
        gradients_.at(push).granted = true;
        std::erase(ready_, push);
    }

    /// The round is skipped or aborted: parents still hold its riders' gradients, which take part
    /// in the next one.
    void put_back(const Round& round) {
        for (const PushId& rider : std::views::reverse(round.riders)) {
            gradients_.at(rider).granted = false;
            ready_.push_front(rider);
        }
    }

    /// The push is applied, refused or void: nobody holds its gradient. @return what was known of
    /// it
    RiderGradient settle(const PushId& push) {
        std::erase(ready_, push);
        RiderProgress& rider = progress(push.worker);
        rider.settled = std::max(rider.settled, push.sequence);
        auto gradient = gradients_.extract(push);
        return gradient.empty() ? RiderGradient() : gradient.mapped();
    }

    [[nodiscard]] RiderProgress& progress(int rider) {
        return riders_.at(static_cast<std::size_t>(rider));
    }
    [[nodiscard]] const RiderProgress& progress(int rider) const {
        return riders_.at(static_cast<std::size_t>(rider));
    }

private:
    std::vector<RiderProgress> riders_;  ///< by worker
    std::map<PushId, RiderGradient> gradients_;
    std::deque<PushId> ready_;
};

}  // namespace cohort
