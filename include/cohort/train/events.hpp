#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cohort/model/replica.hpp"

namespace cohort {

/// Why a run ended.
enum class StopReason { kBudget, kTarget, kSignal };
/// "budget", "target", "signal".
[[nodiscard]] std::string to_string(StopReason reason);

/// Where a run stands. Saved in checkpoints; everything that decides the next step's numbers and
/// is not a buffer is here or in the lease book.
struct TrainProgress {
    std::int64_t samples_applied = 0;
    std::int64_t updates = 0;
    std::int64_t dropped_in_a_row = 0;   ///< batches with non-finite numbers since the last good one
    std::int64_t batches_dropped = 0;
    double train_seconds = 0;            ///< wall time without evaluation pauses, over all parts
    double wall_seconds = 0;             ///< wall time over all parts of a resumed run
    double cpu_seconds = 0;              ///< process CPU time over all parts
    std::optional<double> tta_seconds;   ///< train_seconds when the target accuracy was reached
};

/// One iteration of the training loop.
struct StepReport {
    BatchResult result;          ///< of this batch
    double learning_rate = 0;
    bool applied = false;        ///< false: dropped because loss or gradient was not finite
    std::int64_t epoch = 0;      ///< of the batch
    std::string dropped_because; ///< empty when applied
};

/// Accuracy and loss over the whole test group.
struct EvaluationReport {
    double accuracy = 0;         ///< 0..1
    double loss = 0;             ///< mean cross entropy, nats
    std::int64_t samples = 0;
    double seconds = 0;          ///< the pause it cost
};

/// A checkpoint that was written or could not be.
struct CheckpointReport {
    std::string path;
    std::int64_t samples_applied = 0;
    double pause_seconds = 0;    ///< training stood still for the copy in memory
    double write_seconds = 0;    ///< in the background
    std::string error;           ///< empty when it was saved
};

class TrainControl;

/// Something that follows a run: checkpoints, metrics, the live line, ... Called on the training
/// thread between steps, in the order in which hooks were added. The defaults do nothing.
class TrainHook {
public:
    TrainHook() = default;
    TrainHook(const TrainHook&) = delete;
    TrainHook& operator=(const TrainHook&) = delete;
    virtual ~TrainHook() = default;
    virtual void on_start(TrainControl& run);
    virtual void on_step(TrainControl& run, const StepReport& step);
    virtual void on_evaluation(TrainControl& run, const EvaluationReport& evaluation);
    virtual void on_checkpoint(TrainControl& run, const CheckpointReport& checkpoint);
    /// After the last step, before model and summary are written.
    virtual void on_end(TrainControl& run);
};

}  // namespace cohort
