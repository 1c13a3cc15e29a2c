#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/sched/chooser.hpp"
#include "cohort/sched/rate_regressor.hpp"
#include "cohort/sched/reports.hpp"
#include "cohort/sched/stragglers.hpp"
#include "cohort/sched/update_engine.hpp"

// The lines of a run's metrics.jsonl as records; docs/runs.md says what their numbers mean. Times
// are seconds of training unless said otherwise, and a number that the run did not know is NaN.
namespace cohort {

inline constexpr const char* kMetricsFile = "metrics.jsonl";
/// A longer line is an error.
inline constexpr std::size_t kMostLineBytes = std::size_t{16} << 20;
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// The first line of a run, or of a part that continues it.
struct RunHeader {
    bool resumed = false;
    std::string after_loss;  ///< of a rank, after which the others go on; a sentence, or empty
    std::string version;
    std::string revision;
    std::string command;             ///< empty: an older program wrote the line
    std::vector<std::string> hosts;  ///< of the ranks, each once; empty as above
    std::string model;
    std::string arch;
    std::string mode;
    std::string device;
    int workers = 0;
    int servers = 0;
    std::int64_t batch = 0;  ///< samples per mini-batch of a worker
    std::int64_t samples_applied = 0;
    std::int64_t budget_samples = 0;
    std::optional<double> target_accuracy;
    std::optional<double> target_loss;
    bool deterministic = false;
    /// Every field of the line but lists and objects, as text.
    std::vector<std::pair<std::string, std::string>> fields;
};

/// A worker in a `train` line. Times are per mini-batch, means of its newest iterations.
struct WorkerWindow {
    double lag = kUnknown;  ///< reference batches; of a lost worker NaN
    double own_s = kUnknown;
    double tau_s = kUnknown;  ///< input + compute + push + pull
    double input_s = kUnknown;
    double compute_s = kUnknown;
    double push_s = kUnknown;
    double pull_s = kUnknown;
    double wait_s = kUnknown;
    std::int64_t batch = 0;  ///< samples of its newest mini-batch; 0: not known
    std::optional<StragglerCause> slow;
};

/// A `train` line: means since the one before it.
struct TrainLine {
    std::int64_t samples_applied = 0;
    std::int64_t budget_samples = 0;  ///< 0: an older program wrote the line
    std::int64_t updates = 0;
    double train_s = kUnknown;  ///< at its end
    double loss = kUnknown;
    double accuracy = kUnknown;    ///< 0..1; of a regression NaN
    double r2 = kUnknown;          ///< of a regression
    double perplexity = kUnknown;  ///< of text
    double lr = kUnknown;
    double samples_per_s = kUnknown;
    std::string mode;  ///< in force at its end
    int live = 0;      ///< workers
    std::int64_t pending = 0;
    std::vector<WorkerWindow> workers;
};

/// A test of the network.
struct RunEvaluation {
    std::int64_t samples_applied = 0;
    std::int64_t updates = 0;
    double train_s = kUnknown;
    double accuracy = kUnknown;  ///< 0..1; of a regression NaN
    double r2 = kUnknown;        ///< of a regression
    double perplexity = kUnknown;
    double loss = kUnknown;
    std::int64_t test_samples = 0;
    double pause_s = 0;  ///< of training, not part of train_s
};

/// A worker was lost, or has joined again.
struct RankChange {
    bool joined = false;
    double train_s = 0;
    std::int64_t samples_applied = 0;
    int rank = 0;
    int worker = 0;
    std::string reason;
    int live = 0;  ///< workers afterwards
};

struct RunCheckpoint {
    std::int64_t samples_applied = 0;
    std::string path;
    double pause_s = 0;
    std::string error;  ///< empty: it was written
};

/// A mini-batch or round whose numbers were not finite.
struct DroppedBatch {
    std::int64_t samples_applied = 0;
    std::int64_t samples = 0;
    std::string reason;
};

/// The run ended with an error.
struct RunFailure {
    std::string message;
    int exit_code = 0;
};

/// A worker's totals, of the last part of a resumed run.
struct WorkerTotal {
    std::int64_t samples = 0;
    std::int64_t pushes = 0;
    std::int64_t refused = 0;
    double own_s = kUnknown;
    double samples_per_s = kUnknown;
    double lag_mean = kUnknown;
    double lag_max = kUnknown;
    std::int64_t lost = 0;
    bool live = true;
};

/// The last line of a run that ended.
struct RunSummary {
    std::int64_t samples_applied = 0;
    std::int64_t updates = 0;
    std::int64_t samples_returned = 0;
    std::array<std::int64_t, kReturnReasons> returned{};  ///< of these, by ReturnReason
    double lag_mean = kUnknown;
    double lag_max = kUnknown;
    std::int64_t switches = 0;
    std::int64_t regroupings = 0;
    std::int64_t lost = 0;
    std::int64_t stragglers_brief = 0;
    std::optional<double> tta_s;
    double wall_s = kUnknown;
    double train_s = kUnknown;
    double samples_per_s = kUnknown;
    double cpu_s = kUnknown;
    double bytes_sent = kUnknown;
    std::string stop_reason;
    std::vector<WorkerTotal> workers;
};

/// Receives the records of a run in the order of the file. The defaults do nothing. A record is
/// valid during the call.
class RunLogVisitor {
public:
    RunLogVisitor() = default;
    RunLogVisitor(const RunLogVisitor&) = delete;
    RunLogVisitor& operator=(const RunLogVisitor&) = delete;
    virtual ~RunLogVisitor() = default;
    virtual void on_start(const RunHeader& /*start*/) {}
    virtual void on_train(const TrainLine& /*window*/) {}
    virtual void on_evaluation(const RunEvaluation& /*evaluation*/) {}
    /// A switch or a regrouping.
    virtual void on_change(const SwitchReport& /*change*/) {}
    virtual void on_decision(const DecisionRecord& /*decision*/) {}
    /// @param over  false: the worker is still slow
    virtual void on_straggler(const StragglerEpisode& /*slow*/, bool /*over*/) {}
    virtual void on_rank(const RankChange& /*change*/) {}
    virtual void on_checkpoint(const RunCheckpoint& /*checkpoint*/) {}
    virtual void on_dropped(const DroppedBatch& /*batch*/) {}
    virtual void on_rate(const RateWindow& /*window*/) {}
    virtual void on_failure(const RunFailure& /*failure*/) {}
    virtual void on_summary(const RunSummary& /*summary*/) {}
};

class RunLineParser;

/// Reads metrics.jsonl, as a whole or as it grows. Events and fields that it does not know are
/// ignored, so files of other versions can be read. Errors of feed, finish and read_file:
/// FileError naming file and line for a line that `cohort train` does not write.
class RunLogReader {
public:
    /// @param file  path, for messages and read_file
    explicit RunLogReader(std::string file);
    RunLogReader(const RunLogReader&) = delete;
    RunLogReader& operator=(const RunLogReader&) = delete;
    ~RunLogReader();

    /// Takes the next bytes of the file and reports the lines that they complete. Bytes after the
    /// last line end are kept until the rest of their line comes.
    void feed(std::string_view bytes, RunLogVisitor& visitor);
    /// The file has ended: reports a last line that lacks nothing but its end. @return false: the
    /// last line is torn, as a job leaves it that is killed while it writes, and was ignored
    bool finish(RunLogVisitor& visitor);
    /// Lines of the file are left out before the bytes that come next.
    void skip() { skipped_ = true; }
    /// Reads the whole file. @return as finish. Errors: also FileError for a file that cannot be
    /// read
    bool read_file(RunLogVisitor& visitor);

    /// "metrics.jsonl, line 7": the line that is being reported, or was reported last.
    [[nodiscard]] std::string where() const;

private:
    void take_line(std::size_t begin, std::size_t end, RunLogVisitor& visitor);

    std::string file_;
    std::int64_t line_ = 0;
    bool skipped_ = false;
    std::string pending_;  ///< bytes of lines that were not reported yet
    std::unique_ptr<RunLineParser> parser_;
};

}  // namespace cohort
