#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/core/log.hpp"
#include "cohort/sim/trace.hpp"
#include "cohort/train/hooks.hpp"
#include "cohort/train/options.hpp"
#include "earlier_file.hpp"
#include "trace_recorder.hpp"

namespace cohort {
namespace {

/// Time without the pauses for evaluations, which cost a virtual cluster nothing.
class TraceHook final : public TrainHook {
public:
    /// An empty trace beside it first: a file that cannot be written ends the run before it has
    /// begun, and what an earlier run recorded stays until there is something to replace it.
    void on_start(TrainControl& run) override {
        const std::string probe = run.options().record_trace + ".part";
        write_trace(probe, {});
        std::error_code ignored;
        std::filesystem::remove(probe, ignored);
        const auto workers = static_cast<int>(run.cluster().workers.size());
        recorder_.emplace(workers, run.options().batch);
    }

    void on_push(TrainControl& run, const IterationRecord& record) override {
        recorder_->timed(record, run.clock().now().count() - pauses_s_);
    }

    void on_evaluation(TrainControl& /*run*/, const EvaluationReport& evaluation) override {
        pauses_s_ += evaluation.seconds;
    }

    void on_end(TrainControl& run, StopReason /*reason*/) override { write(run); }

    void on_failure(TrainControl& run) override {
        if (recorder_) {
            write(run);
        }
    }

private:
    /// At the end of a run there is more to save than this: a full disk is said, not thrown.
    void write(TrainControl& run) {
        const std::string& file = run.options().record_trace;
        try {
            const std::vector<TraceRow> rows = recorder_->rows();
            if (run.options().resume && !kept_) {
                keep_earlier(file, "the trace");
                kept_ = true;
            }
            write_trace(file, rows);
            log_info("trace of the workers' own times: {} ({} row(s))", file, rows.size());
        } catch (const FileError& error) {
            log_error("the trace was not saved: {}", error.what());
        }
    }

    std::optional<TraceRecorder> recorder_;
    bool kept_ = false;
    double pauses_s_ = 0;
};

}  // namespace

std::unique_ptr<TrainHook> make_trace_hook() {
    return std::make_unique<TraceHook>();
}

}  // namespace cohort
