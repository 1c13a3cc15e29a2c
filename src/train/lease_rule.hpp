#pragma once

#include "cohort/sched/modes.hpp"

namespace cohort {

/// How many leases a worker holds under a plan, see LeaseDesk::Options.
struct LeaseRule {
    int ahead = 1;
    bool share_tail = false;
};

/// Plans that wait for all: two in rounds that are under way, two on their way through the loader.
/// Others: one that it works on, one that is loaded meanwhile; fewer for the slow at the end.
[[nodiscard]] inline LeaseRule lease_rule(const SyncPlan& plan) {
    constexpr int kTogether = 4;
    constexpr int kAlone = 2;
    const bool together = is_synchronous(plan);
    return {.ahead = together ? kTogether : kAlone, .share_tail = !together};
}

}  // namespace cohort
