#include "session/ring/ring.hpp"

#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {

void PlanSwitch::place(const SyncPlan& plan) {
    roster_.set_members(plan);
    for (const int rider : plan.cohorts.front().riders) {
        driver_.give_role(rider, RingRole::kRider, roster_.choose_parent(rider));
    }
}

void PlanSwitch::install(PlanChange change, bool now) {
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

void PlanSwitch::prepare() {
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

bool PlanSwitch::ready() const {
    bool ready = next_.has_value();
    for (int worker = 0; worker < roster_.workers(); ++worker) {
        ready = ready && (!roster_.seat(worker).live || riders_.progress(worker).flushed());
    }
    return ready;
}

void PlanSwitch::switch_members(const SyncPlan& plan) {
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

}  // namespace cohort
