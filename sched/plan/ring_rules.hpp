#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cohort {

// Rules of rings that real and virtual runs share: who rides with whom, and what is ordered when
// other members are wanted. Pure.

/// Rounds that members know of: the one they work on, and the one they start next without asking.
inline constexpr std::size_t kGrantedRounds = 2;

enum class RingRole : std::uint8_t {
    kMember,
    kRider,
    kHold  ///< a rider that starts nothing new: it is about to become a member
};

/// What the rules look at of a worker.
struct RingSeat {
    RingRole role = RingRole::kMember;
    int parent = 0;  ///< of a rider
    int node = 0;
    bool live = true;
};

/// Of `members` one with the fewest riders, on the rider's node if there is one; of equal ones the
/// first. @param seats  by worker
[[nodiscard]] int choose_parent(int rider, const std::vector<int>& members,
                                std::span<const RingSeat> seats);

/// What a worker that is no member is told before other members take over.
struct FenceRole {
    int worker = 0;
    RingRole role = RingRole::kRider;
    int parent = 0;
    friend bool operator==(const FenceRole&, const FenceRole&) = default;
};
/// Who will be a member starts nothing new; who would lose its parent gets one that stays, if any
/// does. Only those for whom something changes, by worker. @param members, next  not empty
[[nodiscard]] std::vector<FenceRole> fence_roles(const std::vector<int>& members,
                                                 const std::vector<int>& next,
                                                 std::vector<RingSeat> seats);

/// How one list of members follows another.
struct MemberChange {
    int giver = 0;              ///< has what entering members need: one that stays, if any does
    std::vector<int> entering;  ///< in the order of the new list
    std::vector<int> leaving;   ///< in the order of the old one
};
/// @param before  not empty
[[nodiscard]] MemberChange change_members(const std::vector<int>& before,
                                          const std::vector<int>& next);

}  // namespace cohort
