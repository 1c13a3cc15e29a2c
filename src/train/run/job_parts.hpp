#pragma once

#include <cstdint>
#include <memory>

#include "cohort/data/hdf5_thread.hpp"
#include "cohort/data/loader.hpp"
#include "cohort/model/graph.hpp"
#include "cohort/optim/optimizer.hpp"
#include "cohort/optim/schedule.hpp"
#include "cohort/sched/chooser_options.hpp"
#include "cohort/train/options.hpp"

namespace cohort {

/// Data set, graph and facts of a run that every rank has, whatever its role, opened and checked.
struct JobParts {
    /// @param workers of the run. Errors: those of Trainer::Trainer that concern options and files.
    JobParts(const TrainOptions& run_options, int workers);

    TrainOptions options;
    Hdf5Thread hdf5;
    std::shared_ptr<SampleSource> train_set;
    std::shared_ptr<SampleSource> test_set;
    Graph graph;
    OrderOptions order;
    AugmentOptions augment;
    OptimizerOptions optimizer;
    std::int64_t budget_samples;
    Schedule schedule;
    std::int64_t reference_batch;  ///< B: --batch times the workers
};

/// Facts of the job for choosers.
[[nodiscard]] JobFacts job_facts(const JobParts& parts);

}  // namespace cohort
