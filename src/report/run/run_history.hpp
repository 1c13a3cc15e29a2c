#pragma once

#include <optional>
#include <string>
#include <vector>

#include "records/run/run_log.hpp"
#include "report/run/run_columns.hpp"

namespace cohort {

/// A run, or what continued it.
struct RunPart {
    RunHeader header;
    double begin_s = 0;  ///< of training
    std::string plan;    ///< mode in force at its begin
};

/// A run as its page shows it, read from metrics.jsonl. A resumed run is one run.
struct RunHistory {
    std::string file;
    std::string label;  ///< name of the run's folder
    /// The first part, and the parts that continued it; never empty.
    std::vector<RunPart> parts;
    RunColumns columns;
    std::vector<RunEvaluation> evaluations;
    std::vector<SwitchReport> changes;
    std::vector<DecisionRecord> decisions;
    std::vector<StragglerEpisode> slow;  ///< that of a worker which is slow at the end: until then
    std::vector<RankChange> ranks;
    std::vector<RunCheckpoint> checkpoints;
    std::vector<DroppedBatch> dropped;
    std::optional<RunFailure> failure;  ///< of the last part
    std::optional<RunSummary> summary;  ///< of the last part; none: it failed, was killed or runs
    double end_s = 0;                   ///< training time that the file tells about
    std::int64_t samples_applied = 0;
    bool torn = false;  ///< the last line is incomplete

    [[nodiscard]] const RunHeader& first() const { return parts.front().header; }
    /// The modes that were asked for, part by part: "ssgd, then static:3".
    [[nodiscard]] std::string mode() const;
    /// Workers of the largest part.
    [[nodiscard]] int workers() const;
    /// The run measures R2 in the place of accuracy.
    [[nodiscard]] bool regression() const;
};

/// A worker is lost between two moments, until the end of what is known when it has not joined.
struct LostSpan {
    int worker = 0;
    double begin_s = 0;
    double end_s = 0;
    bool joined = false;
    std::string reason;
};
[[nodiscard]] std::vector<LostSpan> lost_spans(const RunHistory& run);

/// Accuracy, or R2.
[[nodiscard]] double test_quality(const RunEvaluation& evaluation);

/// A level of the test group's quality or loss.
struct RunLevel {
    double value = 0;
    bool loss = false;  ///< reached from above
    [[nodiscard]] bool reached_by(const RunEvaluation& evaluation) const;
};
/// The run's own target; none: it had none.
[[nodiscard]] std::optional<RunLevel> own_target(const RunHistory& run);
/// Training time of the first evaluation at or beyond a level; none: it was not reached.
[[nodiscard]] std::optional<double> time_to(const RunHistory& run, const RunLevel& level);

/// @param path  a run's folder, or its metrics.jsonl. Errors: FileError naming file and line; also
/// for a file without a first line of a run.
[[nodiscard]] RunHistory read_run(const std::string& path);
/// Several, whose labels are made to differ. Errors: also UsageError for a run that comes twice.
[[nodiscard]] std::vector<RunHistory> read_runs(const std::vector<std::string>& paths);

}  // namespace cohort
