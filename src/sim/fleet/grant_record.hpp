#pragma once

#include <map>

#include "cohort/sim/fleet.hpp"
#include "sched/fleet/making_room.hpp"

namespace cohort {

/// What a fleet's grants have brought and cost over time, and the plans that were refused.
class GrantRecord {
public:
    /// The fleet goes on after a stop, which ended its grants. @param before  until then
    void resume(FleetGrants before);
    /// The ledger's grants were in force until now since the last call, those that it has no more
    /// ended now. To be called before and after each of its changes.
    void book(const RoomLedger& ledger, double now_s);
    /// @param refusal  once more, if this wish of the job was refused before
    void refused(FleetRefusal refusal);
    /// Writes all grants so far, those in force as if they ended now.
    void report(FleetResult& result, const RoomLedger& ledger, double now_s);

private:
    std::map<int, FleetGrant> open_;  ///< grants in force, by asker
    FleetGrants over_;  ///< grants that have ended; counts are those of earlier parts of the fleet
    double booked_s_ = 0;
};

}  // namespace cohort
