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
    bool lost = false;                ///< where it ends: ranks have died
    std::uint64_t job = 0;            ///< index in the plan
    std::vector<std::int32_t> ranks;  ///< of the pool, in the order of the job's own ranks
    std::int32_t number = 0;          ///< of the job's World
    bool resume = false;
    auto fields() { return std::tie(ends, exit_code, started, lost, job, ranks, number, resume); }
};

/// From a rank to the controller: it is free again, or its process ends with its job.
struct FleetReport {
    std::uint64_t job = 0;
    bool gone = false;    ///< its process ends, as those of all ranks of the job; see error
    bool speaks = false;  ///< rank 0 of the job, which knows what follows
    FleetJobState state = FleetJobState::kFailed;
    std::string error;
    std::int64_t samples = 0;
    std::int64_t updates = 0;
    std::int64_t switches = 0;
    double accuracy = 0;
    double busy_s = 0;               ///< of this part of a job that was stopped and resumed
    double wait_s = 0;               ///< the same
    std::vector<std::int32_t> lost;  ///< ranks of the pool without which the job ended
    auto fields() {
        return std::tie(job, gone, speaks, state, error, samples, updates, switches, accuracy,
                        busy_s, wait_s, lost);
    }
};

}  // namespace cohort
