#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "cohort/train/options.hpp"
#include "core/system/run_lock.hpp"
#include "train/checkpoint/snapshot.hpp"
#include "train/run/job_context.hpp"

namespace cohort {

/// Names in the output folder of a run.
struct RunFolder {
    explicit RunFolder(const std::string& out)
        : model(out + "/model.h5"),
          metrics(out + "/metrics.jsonl"),
          checkpoints(out + "/checkpoints"),
          tensorboard(out + "/tensorboard"),
          exit_code(out + "/exit_code"),
          control(out + "/ctl"),
          live_page(out + "/live.html") {}
    std::string model;
    std::string metrics;
    std::string checkpoints;
    std::string tensorboard;  ///< folder of event files
    std::string exit_code;
    std::string control;    ///< folder of requests, exists while the job runs
    std::string live_page;  ///< how the run stands, for a browser
};

/// A file that the run records outside its folder; a resumed run keeps that of the part before.
/// Errors: UsageError, FileError, see check_output.
[[nodiscard]] OutputFile check_record(const std::string& option, const std::string& path,
                                      const TrainOptions& options);

/// The file of --metrics-file; one that an earlier run left is replaced. Errors: as check_record.
[[nodiscard]] OutputFile check_metrics_file(const TrainOptions& options);

/// Checks the folder, and the files to record, without changing them. Errors: UsageError when
/// results exist and neither `resume` nor `overwrite` is set; FileError when the folder cannot be
/// made or written, is another user's, or has links in the place of a run's files.
void check_run_folder(const TrainOptions& options);

/// Makes the folder and keeps other runs out while the lock lives. Existing results are kept with
/// `resume`, deleted with `overwrite`; unfinished files of killed runs (temporary files, shards
/// without a manifest), exit code and live page of the previous run are always deleted. Errors:
/// UsageError when results exist and neither option is set, or another run has locked the folder;
/// FileError.
RunLock prepare_run_folder(const TrainOptions& options);

/// A checkpoint that a run can continue from.
struct FoundCheckpoint {
    std::string manifest;  ///< its path, for read_checkpoint_range
    RunSnapshot snapshot;
};

/// The newest checkpoint that belongs to this run and is whole: every shard has been read. Newer
/// checkpoints that are torn or of another run are refused by name and renamed, with their shards,
/// to NAME.refused. When none can be used all keep their names: the options may be wrong.
/// std::nullopt when there are none. Errors: FileError when all were refused.
[[nodiscard]] std::optional<FoundCheckpoint> find_manifest(
    const std::string& folder, const std::vector<std::pair<std::string, std::string>>& identity,
    Hdf5Thread& thread);

/// Writes OUT/exit_code for the launcher: a line with the number, a line with the reason. The first
/// writer since prepare_run_folder wins; false for all others and when the file cannot be written.
/// Only for ranks of a run that has locked the folder: after prepare_run_folder on rank 0. From any
/// thread of any rank; never throws and takes no lock.
bool write_exit_code(const std::string& out, ExitCode code, std::string_view reason) noexcept;

/// Least number of bytes that a run writes.
struct RunBytes {
    std::uint64_t model = 0;
    std::uint64_t checkpoint = 0;  ///< one checkpoint with all its shards
    std::uint64_t checkpoints =
        0;  ///< number of checkpoints at a time: those kept, and one being written
    [[nodiscard]] std::uint64_t all() const noexcept;
};
[[nodiscard]] RunBytes run_bytes(const JobContext& parts);

/// Compares these bytes with the free space of the output folder's file system; existing results
/// count as free if they will be replaced. Passes when the free space is not known; a user's quota
/// is not checked. Errors: DiskFullError with figures.
void check_free_space(const TrainOptions& options, const RunBytes& bytes);

/// Calls `write`; as long as the disk is full, deletes the oldest checkpoint and calls `write`
/// again. Deletes nothing when all checkpoints together would not free `bytes`. @param newest_too
/// deletes the newest checkpoint too: for a finished run, whose result is worth more Returns
/// whether the newest checkpoint still exists. Errors: those of `write`.
bool write_with_room(const std::string& checkpoints, std::uint64_t bytes, bool newest_too,
                     const std::function<void()>& write);

}  // namespace cohort
