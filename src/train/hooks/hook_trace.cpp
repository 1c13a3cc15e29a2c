#include <memory>
#include <optional>
#include <string>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/train/hooks.hpp"
#include "cohort/train/options.hpp"
#include "core/log.hpp"
#include "formats/trace.hpp"
#include "train/hooks/trace_recorder.hpp"
#include "train/run/record_file.hpp"

namespace cohort {
namespace {

/// Time without the pauses for evaluations, which cost a virtual cluster nothing.
class TraceHook final : public TrainHook {
public:
    /// A file that cannot be written ends the run at its start.
    void on_start(TrainControl& run) override {
        file_.emplace("--record-trace", run.options().record_trace, run.options());
        const auto workers = static_cast<int>(run.cluster().workers.size());
        recorder_.emplace(workers, run.options().batch);
    }

    void on_push(TrainControl& run, const IterationRecord& record) override {
        recorder_->timed(record, run.clock().now().count() - pauses_s_);
    }

    void on_evaluation(TrainControl& /*run*/, const EvaluationReport& evaluation) override {
        pauses_s_ += evaluation.seconds;
    }

    void on_end(TrainControl& /*run*/, StopReason /*reason*/) override { write(); }

    void on_failure(TrainControl& /*run*/) override {
        if (recorder_) {
            write();
        }
    }

private:
    /// At the end of a run other results remain to be saved: a full disk is logged, not thrown.
    void write() {
        try {
            const std::vector<TraceRow> rows = recorder_->rows();
            const std::string& file = file_->make_room();
            write_trace(file, rows);
            log_info("trace of the workers' own times: {} ({} row(s))", file, rows.size());
        } catch (const FileError& error) {
            log_error("the trace was not saved: {}", error.what());
        }
    }

    std::optional<TraceRecorder> recorder_;
    std::optional<RecordFile> file_;
    double pauses_s_ = 0;
};

}  // namespace

std::unique_ptr<TrainHook> make_trace_hook() {
    return std::make_unique<TraceHook>();
}

}  // namespace cohort
