#pragma once

#include <cstddef>
#include <span>

#include "cohort/core/thread_team.hpp"

namespace cohort {

/// Work on fewer bytes than this is done by the caller alone: waking a team costs more.
constexpr std::size_t kWorthSharing = std::size_t{256} << 10;

/// Per-member sums of a gradient, one after the other; the first member's receives the total.
/// Members are added in their order, those with `used` unset are left out, so the result does not
/// depend on timing. To be called outside of team.run().
/// @param floats  in each member's sums, a multiple of 16
void add_member_sums(ThreadTeam& team, float* sums, std::size_t floats, std::span<const char> used);

}  // namespace cohort
