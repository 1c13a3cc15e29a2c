#pragma once

#include <cstdint>
#include <memory>

#include "cohort/train/events.hpp"
#include "cohort/train/trainer.hpp"
#include "sched/session/training_session.hpp"
#include "train/coordinator/run_reporter.hpp"
#include "train/protocol/protocol.hpp"
#include "train/run/job_context.hpp"

namespace cohort {

/// Where a run begins: at the beginning, or at a checkpoint.
struct RunStart {
    BeginOrder order;
    LeaseState leases;
    SampleAccounts accounts;
    SessionCounts counts;
    TrainProgress progress;
    std::int64_t metrics_bytes = 0;  ///< of metrics.jsonl that belong to the run so far
};

/// The newest checkpoint of the output folder with `resume`, whose reference batch `parts` gets;
/// else the beginning. Errors: see find_manifest.
[[nodiscard]] RunStart find_start(JobContext& parts);

/// The mode in charge at this point of the run and its plan, leases, and what was counted so far.
struct OpenedSession {
    std::unique_ptr<TrainingSession> session;
    std::shared_ptr<const LstmModel> model;  ///< of the predictor; null: it needs none
};
/// @param parts, reporter  outlive the session. Errors: UsageError, FileError of the choosers'
/// files.
[[nodiscard]] OpenedSession open_session(const JobContext& parts, int workers,
                                         const TrainEnvironment& environment,
                                         const RunReporter& reporter, const RunStart& start);

}  // namespace cohort
