#include "session/ring/ring_roster.hpp"

#include <algorithm>
#include <iterator>

namespace cohort {

RingRoster::RingRoster(const std::vector<int>& nodes) {
    for (const int node : nodes) {
        seats_.push_back({.node = node});
    }
}

bool RingRoster::is_member(int worker) const {
    return std::find(members_.begin(), members_.end(), worker) != members_.end();
}

std::vector<int> RingRoster::members_of(const SyncPlan& plan) const {
    const std::vector<int>& listed = plan.cohorts.front().members;
    std::vector<int> members;
    std::copy_if(listed.begin(), listed.end(), std::back_inserter(members),
                 [this](int worker) { return seat(worker).live; });
    return members;
}

int RingRoster::choose_parent(int rider) const {
    return cohort::choose_parent(rider, members_, seats_);
}

bool RingRoster::is_orphan(int worker) const {
    const RingSeat& one = seat(worker);
    return one.live && one.role != RingRole::kMember && !is_member(one.parent);
}

void RingRoster::assign(int worker, RingRole role, int parent) {
    seats_.at(index(worker)).role = role;
    seats_.at(index(worker)).parent = parent;
}

bool RingRoster::lose(int worker) {
    RingSeat& gone = seats_.at(index(worker));
    const bool member = gone.role == RingRole::kMember;
    gone.live = false;
    gone.role = RingRole::kHold;
    if (member) {
        std::erase(members_, worker);
    }
    return member;
}

void RingRoster::join(int worker) {
    seats_.at(index(worker)).live = true;
    assign(worker, RingRole::kRider, 0);
}

}  // namespace cohort
