#pragma once

#include <span>
#include <vector>

#include "cohort/sched/plan.hpp"
#include "sched/plan/ring_rules.hpp"

namespace cohort {

/// Who is a member of a ring, who rides with whom, and who is lost. Pure.
class RingRoster {
public:
    /// All are live members. @param nodes by worker
    explicit RingRoster(const std::vector<int>& nodes);

    /// In ring order.
    [[nodiscard]] const std::vector<int>& members() const noexcept { return members_; }
    [[nodiscard]] bool is_member(int worker) const;
    [[nodiscard]] int workers() const noexcept { return static_cast<int>(seats_.size()); }
    [[nodiscard]] const RingSeat& seat(int worker) const { return seats_.at(index(worker)); }
    [[nodiscard]] std::span<const RingSeat> seats() const noexcept { return seats_; }
    /// Live ones of the plan's.
    [[nodiscard]] std::vector<int> members_of(const SyncPlan& plan) const;
    /// A member for a rider's gradients.
    [[nodiscard]] int choose_parent(int rider) const;
    /// A live worker rides or holds and its parent is no member.
    [[nodiscard]] bool is_orphan(int worker) const;

    void set_members(const SyncPlan& plan) { members_ = members_of(plan); }
    void assign(int worker, RingRole role, int parent);
    /// @return whether it had the role of a member
    bool lose(int worker);
    /// It is back, as a rider.
    void join(int worker);

private:
    [[nodiscard]] static std::size_t index(int worker) { return static_cast<std::size_t>(worker); }

    std::vector<RingSeat> seats_;  ///< by worker
    std::vector<int> members_;
};

}  // namespace cohort
