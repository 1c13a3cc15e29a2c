#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cohort/comm/rank_pool.hpp"
#include "cohort/core/error.hpp"
#include "cohort/sim/fleet.hpp"
#include "cohort/train/options.hpp"

// Many jobs on the ranks of one allocation. Rank 0 is the controller and trains nothing; the others
// are lent to jobs, first come first served by the same queue as on the virtual cluster.
//  1. The controller tells the ranks that a job gets; the first of them are its servers.
//  2. These ranks make a World of their own and train as `cohort train` does.
//  3. Each tells the controller that it is free again, the job's rank 0 what became of the job.
//  4. A job that loses its rank 0 or a server ends with its processes; the controller learns it
//  from
//     those that remain, or from the system, and lends the other ranks only.
//  5. When no job is left, or none starts any more after a signal, the controller ends all ranks.
namespace cohort {

/// The same on all ranks.
struct RealFleet {
    const FleetPlan& plan;
    const std::vector<TrainOptions>& jobs;  ///< see train_jobs
    std::string out;                        ///< folder of the result
    bool overwrite = false;
    bool resume = false;      ///< jobs that have not ended go on
    std::string tuning_file;  ///< see TrainEnvironment
    int cores = 1;            ///< that this process may use
    /// Of a host's network card in each direction; 0: not known, or no room is made (make-room).
    double card_bytes_s = 0;
    std::function<bool()> stop_requested;
};

/// On rank 0: runs all jobs, ends the other ranks and shuts the pool down. Errors: those that can
/// be found before anything starts, UsageError and FileError, after which the other ranks are
/// ended.
[[nodiscard]] FleetResult control_fleet(RankPool& pool, const RealFleet& fleet);

/// On all other ranks: takes part in jobs until the controller ends it, and shuts the pool down.
/// The exit code of the program. Errors: an Error without text when the controller has found one
/// before the start.
[[nodiscard]] ExitCode serve_fleet(RankPool& pool, const RealFleet& fleet);

}  // namespace cohort
