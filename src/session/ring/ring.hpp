#pragma once

#include <vector>

#include "session/ring/plan_switch.hpp"
#include "session/ring/rider_tracker.hpp"
#include "session/ring/ring_driver.hpp"
#include "session/ring/ring_roster.hpp"
#include "session/ring/round_scheduler.hpp"

namespace cohort {

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
