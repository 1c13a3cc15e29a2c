#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cohort {

// Rules of rings that real and virtual runs share: the parents of riders, and the orders before the
// members change. Pure.

/// Rounds granted to members: the round in progress, and the next, which they start without asking.
inline constexpr std::size_t kGrantedRounds = 2;

enum class RingRole : std::uint8_t {
    kMember,
    kRider,
    kHold  ///< a rider about to become a member, which starts no new mini-batch
};

/// A worker's place in the ring.
struct RingSeat {
    RingRole role = RingRole::kMember;
    int parent = 0;  ///< of a rider
    int node = 0;
    bool live = true;
};

/// The member with the fewest riders, among those one on the rider's node if there is one, else the
/// first. @param seats  by worker
[[nodiscard]] int choose_parent(int rider, const std::vector<int>& members,
                                std::span<const RingSeat> seats);

/// The order to a worker outside the ring before the members change.
struct FenceRole {
    int worker = 0;
    RingRole role = RingRole::kRider;
    int parent = 0;
    friend bool operator==(const FenceRole&, const FenceRole&) = default;
};
/// Workers about to become members start no new mini-batch; riders whose parent leaves get a parent
/// that stays, if any member stays. Only workers whose order changes, by worker. @param members,
/// next  not empty
[[nodiscard]] std::vector<FenceRole> fence_roles(const std::vector<int>& members,
                                                 const std::vector<int>& next,
                                                 std::vector<RingSeat> seats);

/// The difference between two successive lists of members.
struct MemberChange {
    int giver = 0;  ///< sends entering members the state: a member that stays, if any does
    std::vector<int> entering;  ///< in the order of the new list
    std::vector<int> leaving;   ///< in the order of the old one
};
/// @param before  not empty
[[nodiscard]] MemberChange change_members(const std::vector<int>& before,
                                          const std::vector<int>& next);

}  // namespace cohort
