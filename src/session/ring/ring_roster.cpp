#include "session/ring/ring_roster.hpp"

#include <algorithm>
#include <iterator>
#include <ranges>

namespace cohort {

RingRoster::RingRoster(const std::vector<int>& nodes) {
    for (const int node : nodes) {
        seats_.push_back({.node = node});
    }
}

std::vector<int> RingRoster::members_of(const SyncPlan& plan) const {
    const std::vector<int>& listed = plan.cohorts.front().members;
    std::vector<int> members;
    std::copy_if(listed.begin(), listed.end(), std::back_inserter(members),
                 [this](int worker) { return seat(worker).live; });
    return members;
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

void RiderTracker::add_ticket(const PushTicket& ticket, std::int64_t correct, std::uint32_t epoch) {
    RiderGradient& gradient = gradients_[ticket.id];
    gradient.ticket = ticket;
    gradient.correct = correct;
    gradient.epoch = epoch;
    if (gradient.parent) {
        ready_.push_back(ticket.id);
    }
}

void RiderTracker::add_gradient(const PushId& push, int parent) {
    RiderGradient& gradient = gradients_[push];
    gradient.parent = parent;
    if (gradient.ticket) {
        ready_.push_back(push);
    }
}

const RiderGradient* RiderTracker::find(const PushId& push) const {
    const auto found = gradients_.find(push);
    return found == gradients_.end() ? nullptr : &found->second;
}

std::vector<PushId> RiderTracker::pushes_of(int rider) const {
    std::vector<PushId> pushes;
    for (const auto& [push, gradient] : gradients_) {
        if (push.worker == rider) {
            pushes.push_back(push);
        }
    }
    return pushes;
}

void RiderTracker::grant(const PushId& push) {
    gradients_.at(push).granted = true;
    std::erase(ready_, push);
}

void RiderTracker::put_back(const Round& round) {
    for (const RoundRider& rider : std::views::reverse(round.riders)) {
        gradients_.at(rider.push).granted = false;
        ready_.push_front(rider.push);
    }
}

RiderGradient RiderTracker::settle(const PushId& push) {
    std::erase(ready_, push);
    RiderProgress& rider = progress(push.worker);
    rider.settled = std::max(rider.settled, push.sequence);
    auto gradient = gradients_.extract(push);
    return gradient.empty() ? RiderGradient() : gradient.mapped();
}

}  // namespace cohort
