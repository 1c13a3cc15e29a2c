#include "sched/plan/ring_rules.hpp"

#include <algorithm>
#include <iterator>

namespace cohort {
namespace {

bool contains(const std::vector<int>& list, int worker) {
    return std::ranges::find(list, worker) != list.end();
}

/// Entries of `list` that are, or are not, in `other`.
std::vector<int> pick(const std::vector<int>& list, const std::vector<int>& other, bool in_it) {
    std::vector<int> picked;
    std::ranges::copy_if(list, std::back_inserter(picked),
                         [&](int worker) { return contains(other, worker) == in_it; });
    return picked;
}

}  // namespace

int choose_parent(int rider, const std::vector<int>& members, std::span<const RingSeat> seats) {
    std::vector<int> riders(seats.size(), 0);  // by parent
    for (std::size_t other = 0; other < seats.size(); ++other) {
        const RingSeat& one = seats[other];
        const bool rides = one.live && one.role == RingRole::kRider;
        riders[static_cast<std::size_t>(one.parent)] +=
            rides && static_cast<int>(other) != rider ? 1 : 0;
    }
    const int node = seats[static_cast<std::size_t>(rider)].node;
    const auto cost = [&](int member) {
        const auto index = static_cast<std::size_t>(member);
        return 2 * riders[index] + (seats[index].node == node ? 0 : 1);
    };
    return *std::ranges::min_element(members, {}, cost);
}

std::vector<FenceRole> fence_roles(const std::vector<int>& members, const std::vector<int>& next,
                                   std::vector<RingSeat> seats) {
    const std::vector<int> staying = pick(next, members, true);
    std::vector<FenceRole> orders;
    for (std::size_t index = 0; index < seats.size(); ++index) {
        RingSeat& rider = seats[index];
        const auto worker = static_cast<int>(index);
        if (!rider.live || rider.role == RingRole::kMember) {
            continue;
        }
        const RingRole role = contains(next, worker) ? RingRole::kHold : RingRole::kRider;
        const bool orphan =
            role == RingRole::kRider && !contains(next, rider.parent) && !staying.empty();
        const int parent = orphan ? choose_parent(worker, staying, seats) : rider.parent;
        if (role != rider.role || parent != rider.parent) {
            rider.role = role;  // counts for those that follow
            rider.parent = parent;
            orders.push_back({.worker = worker, .role = role, .parent = parent});
        }
    }
    return orders;
}

MemberChange change_members(const std::vector<int>& before, const std::vector<int>& next) {
    const std::vector<int> staying = pick(next, before, true);
    return {.giver = staying.empty() ? before.front() : staying.front(),
            .entering = pick(next, before, false),
            .leaving = pick(before, next, false)};
}

}  // namespace cohort
