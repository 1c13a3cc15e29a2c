#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cohort/data/hdf5_thread.hpp"
#include "cohort/train/options.hpp"
#include "cohort/train/snapshot.hpp"
#include "run_lock.hpp"

namespace cohort {

/// Names in the output folder of a run.
struct RunFolder {
    explicit RunFolder(const std::string& out)
        : model(out + "/model.h5"),
          metrics(out + "/metrics.jsonl"),
          checkpoints(out + "/checkpoints") {}
    std::string model;
    std::string metrics;
    std::string checkpoints;
};

/// What can be known of the folder without touching it. Errors: UsageError when results are there
/// and neither `resume` nor `overwrite` was asked for; FileError when it cannot be made or written.
void check_run_folder(const TrainOptions& options);

/// Makes the folder and keeps other runs out while the lock lives. Results that are there already
/// are kept with `resume`, deleted with `overwrite`; temporary files of killed runs are always
/// deleted. Errors: UsageError when they are there and
/// neither was asked for, or another run has the folder; FileError.
RunLock prepare_run_folder(const TrainOptions& options);

/// The newest checkpoint that is whole and belongs to this run; torn or foreign ones before it are
/// refused by name and renamed to NAME.refused. When none can be used all keep their names: the
/// options may be at fault. std::nullopt when there are none. Errors: FileError when all were
/// refused.
[[nodiscard]] std::optional<TrainSnapshot> find_checkpoint(
    const std::string& folder, const std::vector<std::pair<std::string, std::string>>& identity,
    Hdf5Thread& thread);

}  // namespace cohort
