#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "cohort/sim/fleet.hpp"

// Messages of a fleet on real ranks.
namespace cohort {

/// From the controller to a free rank: take part in a job, or end.
struct FleetOrder {
    bool ends = false;
    std::int32_t exit_code = 0;       ///< where it ends
    bool started = true;              ///< where it ends: there was a fleet
    std::uint64_t job = 0;            ///< index in the plan
    std::vector<std::int32_t> ranks;  ///< of the pool, in the order of the job's own ranks
    std::int32_t number = 0;          ///< of the job's World
    bool resume = false;
    auto fields() { return std::tie(ends, exit_code, started, job, ranks, number, resume); }
};

/// From a rank to the controller: it is free again.
struct FleetReport {
    std::uint64_t job = 0;
    bool speaks = false;  ///< rank 0 of the job, which knows what follows
    FleetJobState state = FleetJobState::kFailed;
    std::string error;
    std::int64_t samples = 0;
    std::int64_t updates = 0;
    std::int64_t switches = 0;
    double accuracy = 0;
    double busy_s = 0;  ///< of this part of a job that was stopped and resumed
    double wait_s = 0;  ///< the same
    auto fields() {
        return std::tie(job, speaks, state, error, samples, updates, switches, accuracy, busy_s,
                        wait_s);
    }
};

}  // namespace cohort
