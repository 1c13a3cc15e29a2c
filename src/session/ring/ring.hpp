#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "session/mode_controller.hpp"
#include "session/ring/ring_roster.hpp"
#include "session/ring/round_scheduler.hpp"

namespace cohort {

/// Changes who is a member and who rides, at a fence:
///  1. install: workers that are about to be members start nothing new (kHold); riders whose parent
///     leaves are reassigned. Both say what they had begun. The ring goes on meanwhile.
///  2. The fence is reached when all of that has been applied: nothing more is granted, and the
///     granted round that the members have not begun is skipped.
///  3. When no round is under way the engine gets the plan. Members that leave ride on with the
///     parameters they have, workers that enter get everything from a member.
/// Pure.
class PlanSwitch {
public:
    PlanSwitch(RingRoster& roster, RiderTracker& riders, RingDriver& driver)
        : roster_(roster), riders_(riders), driver_(driver) {}

    /// Who is a member at the start, when all hold the same, and who rides.
    void place(const SyncPlan& plan);
    /// Step 1. Of several plans the newest counts, with the newest batches that were given. A plan
    /// whose members are all lost does not count. @param now  else at the next prepare()
    void install(PlanChange change, bool now);
    /// Step 1 again, after other workers are lost.
    void prepare();
    /// Step 2: a plan waits and its fence is reached.
    [[nodiscard]] bool ready() const;
    /// The plan that waits, which waits no more.
    [[nodiscard]] PlanChange take() { return *std::exchange(next_, std::nullopt); }
    /// Step 3, under the plan that is in force now.
    void switch_members(const SyncPlan& plan);

private:
    RingRoster& roster_;
    RiderTracker& riders_;
    RingDriver& driver_;
    std::optional<PlanChange> next_;  ///< waits for its fence
};

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
