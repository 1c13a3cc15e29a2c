#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "sched/session/mode_controller.hpp"
#include "sched/session/ring/ring_roster.hpp"
#include "sched/session/ring/round_scheduler.hpp"

namespace cohort {

/// Changes who is a member and who rides, at a fence:
///  1. install: workers that are about to be members start nothing new (kHold); riders whose parent
///     leaves are reassigned. Both say what they had begun. The ring goes on meanwhile.
///  2. The fence is reached when all of that has been applied: nothing more is granted, and the
///     granted round that the members have not begun is skipped.
///  3. When no round is under way the engine gets the plan. Members that leave ride on with the
///     parameters they have, workers that enter get everything from a member.
/// Pure.
class PlanSwitch {
public:
    PlanSwitch(RingRoster& roster, RiderTracker& riders, RingDriver& driver)
        : roster_(roster), riders_(riders), driver_(driver) {}

    /// Who is a member at the start, when all hold the same, and who rides.
    void place(const SyncPlan& plan) {
        roster_.set_members(plan);
        for (const int rider : plan.cohorts.front().riders) {
            driver_.give_role(rider, RingRole::kRider, roster_.choose_parent(rider));
        }
    }

    /// Step 1. Of several plans the newest counts, with the newest batches that were given. A plan
    /// whose members are all lost does not count. @param now  else at the next prepare()
    void install(PlanChange change, bool now) {
        check_invariant(change.plan.cohorts.size() == 1, "a ring has one cohort");
        if (roster_.members_of(change.plan).empty()) {
            return;
        }
        if (next_ && change.batches.empty()) {
            change.batches = std::move(next_->batches);
        }
        next_ = std::move(change);
        if (now) {
            prepare();
        }
    }

    /// Step 1 again, after other workers are lost.
    void prepare() {
        if (!next_) {
            return;
        }
        const std::vector<int> next = roster_.members_of(next_->plan);
        if (next.empty()) {
            next_.reset();
            return;
        }
        const std::vector<RingSeat> seats(roster_.seats().begin(), roster_.seats().end());
        for (const FenceRole& order : fence_roles(roster_.members(), next, seats)) {
            riders_.progress(order.worker).flush = true;
            driver_.give_role(order.worker, order.role, order.parent);
        }
    }

    /// Step 2: a plan waits and its fence is reached.
    [[nodiscard]] bool ready() const {
        bool ready = next_.has_value();
        for (int worker = 0; worker < roster_.workers(); ++worker) {
            ready = ready && (!roster_.seat(worker).live || riders_.progress(worker).flushed());
        }
        return ready;
    }

    /// The plan that waits, which waits no more.
    [[nodiscard]] PlanChange take() { return *std::exchange(next_, std::nullopt); }
    /// Step 3, under the plan that is in force now.
    void switch_members(const SyncPlan& plan) {
        const std::vector<int> before = roster_.members();
        roster_.set_members(plan);
        const MemberChange change = change_members(before, roster_.members());
        for (const int worker : change.entering) {
            driver_.enter(worker, change.giver);
        }
        for (const int worker : change.leaving) {
            if (roster_.seat(worker).live) {
                driver_.give_role(worker, RingRole::kRider, roster_.choose_parent(worker));
            }
        }
        for (int worker = 0; worker < roster_.workers(); ++worker) {
            riders_.progress(worker).flush = false;
        }
    }

private:
    RingRoster& roster_;
    RiderTracker& riders_;
    RingDriver& driver_;
    std::optional<PlanChange> next_;  ///< waits for its fence
};

/// A job's ring: its workers, the gradients of its riders, its rounds and its changes of members.
/// The same in real and virtual jobs. Pure.
struct Ring {
    /// @param driver  outlives it  @param nodes  by worker
    Ring(RingDriver& driver, const std::vector<int>& nodes)
        : roster(nodes),
          riders(roster.workers()),
          rounds(roster, riders, driver),
          plans(roster, riders, driver) {}

    RingRoster roster;
    RiderTracker riders;
    RoundScheduler rounds;
    PlanSwitch plans;
};

}  // namespace cohort
