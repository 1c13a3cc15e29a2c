#pragma once

#include <functional>

#include "train/coordinator/cancellation.hpp"
#include "train/coordinator/gathering.hpp"
#include "train/coordinator/roster.hpp"
#include "train/coordinator/run_wait.hpp"
#include "train/run/job_context.hpp"

namespace cohort {

/// Writes OUT/model.h5; where the disk is full, old checkpoints make room for it.
/// @param over  the run will not be continued: the newest checkpoint may go, too
/// @return false: the model could not be written, which is logged, or that checkpoint went
[[nodiscard]] bool save_model(JobContext& parts, const Gathered& snapshot, bool over);

/// Stops all roles and waits for their final reports and the last bytes that they send. Returns
/// early when this rank's own role has failed: then the whole job ends.
/// @param lost  a rank was lost meanwhile, which owes nothing any more
void dismiss(CommContext comm, Roster& roster, Gathering& gathering, RunWait& wait,
             const Cancellation& cancellation, const std::function<void(const RankNews&)>& lost);

}  // namespace cohort
