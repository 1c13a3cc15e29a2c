#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "fleet/fleet_messages.hpp"
#include "sim/fleet/room_review.hpp"

namespace cohort {

/// Whose transfers go first on real ranks: what jobs report goes to the same review as on the
/// virtual cluster (RoomReview), and the weights come from it. Jobs that have not reported count as
/// if they were not there. Pure.
class RealRoom {
public:
    /// @param nodes  hosts, with their cores and cards
    RealRoom(RoomRule rule, std::vector<NodeCapacity> nodes) : review_(rule, std::move(nodes)) {}

    /// As RoomReview has it.
    void resume(FleetGrants before) { review_.resume(std::move(before)); }
    /// @param report  of a job that goes on
    void heard(const FleetReport& report, double now_s);
    /// Whether the plan that the report wishes for fits beside the other jobs. What it brings the
    /// job itself counts only where others lose: its chooser sees stragglers, the closed form does
    /// not.
    [[nodiscard]] bool admits(const FleetReport& report, double now_s);
    /// A job is over, or has failed; nothing happens when it has not reported.
    void end(std::size_t job, double now_s);

    struct Weight {
        std::size_t job = 0;
        double weight = 1;
    };
    /// Reviews the grants when it is due: weights that have changed. To be called now and then.
    [[nodiscard]] std::vector<Weight> review_if_due(double now_s);
    /// Writes the grants so far, if room is made.
    void report(FleetResult& result, double now_s) { review_.report(result, now_s); }

private:
    struct Told {
        std::uint64_t plan = 0;  ///< by the job
        double weight = 1;       ///< to the job
    };
    RoomReview review_;
    std::map<std::size_t, Told> told_;
};

}  // namespace cohort
