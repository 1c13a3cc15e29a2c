#pragma once

#include <vector>

#include "cohort/data/sample_source.hpp"
#include "cohort/recorded/profile.hpp"
#include "cohort/sim/simulation.hpp"
#include "sim/job/job_spec.hpp"
#include "sim/learner/learner.hpp"

namespace cohort {

/// Where a job is.
struct NodesOfJob {
    std::vector<int> workers;  ///< [workers]
    std::vector<int> servers;  ///< [servers]; empty with rings
};

/// Of the data set that a job trains on; without one a set of as many samples as its budget.
/// Errors: FileError; UsageError for a batch that is larger than the set.
[[nodiscard]] SampleSetInfo samples_of(const SimulateOptions& options);
/// What a job of these options is made of, without a predictor; no lanes are recorded.
/// @param options  checked  Errors: UsageError for a workload; FileError for files of choosers.
[[nodiscard]] JobSpec spec_of(const SimulateOptions& options, const ClusterProfile& profile,
                              const SampleSetInfo& train, NodesOfJob nodes);
/// What learns in such a job, when it trains.
[[nodiscard]] LearnerOptions learner_options(const SimulateOptions& options);
/// The plan that waits for all workers.
[[nodiscard]] ModeChoice waiting_for_all(const ModeSetting& setting);

}  // namespace cohort
