#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "train/coordinator/cancellation.hpp"
#include "train/coordinator/evaluation/evaluation_tracker.hpp"
#include "train/coordinator/evaluation/snapshot_evaluator.hpp"
#include "train/coordinator/gathering.hpp"
#include "train/coordinator/run_reporter.hpp"
#include "train/coordinator/update_driver.hpp"

namespace cohort {

/// The evaluations of a run. Where workers wait for each other they do them, each a part, while
/// training stands still; else a snapshot is evaluated beside training, on a thread of this
/// process. A run that computes no network has none.
class RunEvaluations {
public:
    /// All of them outlive it. @param cancellation  gets an error of the test data
    RunEvaluations(CommContext comm, const JobContext& parts, RunReporter& reporter,
                   Cancellation& cancellation);

    /// Adds the evaluation that is due after `samples`, if one is. @param together  workers do it
    void add_due(std::int64_t samples, bool together, UpdateExtras& extras);
    /// See UpdateObserver::taken.
    void taken(const UpdateExtras& extras, int parts);
    void arrived(const EvaluatedPart& part);
    void arrived(const Gathered& snapshot);
    /// A part of an evaluation by workers may not come any more: it is due again.
    void worker_lost() { tracker_.give_up(); }
    /// Training waits for an evaluation that is running.
    [[nodiscard]] bool pausing() const noexcept { return tracker_.pausing(); }
    [[nodiscard]] bool running() const noexcept { return tracker_.running(); }
    /// World ranks that owe a part of it.
    [[nodiscard]] std::vector<int> missing(const UpdateDriver& driver) const;

    /// Training is over: what is evaluated beside it is no longer held back.
    void training_over();
    /// The current version has not been evaluated.
    [[nodiscard]] bool wanted_at_end() const;
    /// An evaluation by all workers.
    [[nodiscard]] UpdateExtras start_last();
    /// The run ends without what is running.
    void abandon() { tracker_.abandon(); }

private:
    [[nodiscard]] SnapshotEvaluator& beside_training();

    CommContext comm_;
    const JobContext& parts_;
    RunReporter& reporter_;
    Cancellation& cancellation_;
    EvaluationTracker tracker_;
    std::unique_ptr<SnapshotEvaluator> evaluator_;  ///< once a mode that does not wait needed it
};

}  // namespace cohort
