#pragma once

#include <vector>

#include "cohort/sim/fleet.hpp"

namespace cohort {

/// Adds a point; of too many (FleetResult::kUsePoints) each two neighbours become one. Points have
/// `devices` only. @param point  later than all before
void add_use(std::vector<FleetUsePoint>& use, FleetUsePoint point);

}  // namespace cohort
