#pragma once

#include <string>
#include <vector>

#include "cohort/sim/fleet.hpp"
#include "cohort/train/options.hpp"

namespace cohort {

/// Checks the names and values of [real]. Errors: UsageError naming file, line and key.
void check_real_options(const FleetPlan& plan);

/// The options of the fleet's jobs as `cohort train` takes them, checked. A job's results are in
/// OUT/NAME. A job of time only sleeps for as long as the profile's workload computes.
/// Errors: UsageError naming the job or the key of [real].
[[nodiscard]] std::vector<TrainOptions> train_jobs(const FleetPlan& plan, const std::string& out,
                                                   bool overwrite);

/// Ranks of a job: servers and workers.
[[nodiscard]] int ranks_of(const FleetJob& job, const TrainOptions& options);

/// `card` in [real]: the rate of each host's network card in each direction, bytes/s; 0: not given.
/// Errors: UsageError naming file, line and key.
[[nodiscard]] double card_of(const FleetPlan& plan);

/// What the file says that means nothing on real ranks, for one line of the log; empty: nothing.
[[nodiscard]] std::string without_effect(const FleetPlan& plan);

}  // namespace cohort
