#include <fcntl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/train/hooks.hpp"
#include "cohort/train/options.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "data/file/text_file.hpp"
#include "sched/recorded/recorded_load.hpp"
#include "sched/recorded/trace.hpp"
#include "train/hooks/record_hook.hpp"
#include "train/hooks/trace_recorder.hpp"

namespace cohort {
namespace {

/// Writes every iteration in the order of arrival, as it goes: what a killed run leaves ends a few
/// hundred iterations before its end.
class LoadHook final : public RecordHook {
public:
    LoadHook() : RecordHook("--record-load", &TrainOptions::record_load, "the workers' load") {}

    void on_push(TrainControl& run, const IterationRecord& record) override {
        if (record.samples <= 0 || failed_) {
            return;
        }
        append_recorded_load(rows_, record, run.options().batch);
        ++count_;
        if (rows_.size() >= kPiece) {
            try {
                put_rows();
            } catch (const FileError& error) {
                failed_ = true;
                log_error("{}; the rest of the workers' load is missing there", error.what());
            }
        }
    }

protected:
    [[nodiscard]] bool any() const override { return count_ > 0 && !failed_; }
    void write(const std::string& path, const TrainOptions& /*options*/) override {
        put_rows();
        log_info("the workers' load: {} ({})", path, counted(count_, "iteration"));
    }

private:
    static constexpr std::size_t kPiece = 65536;

    void put_rows() {
        const std::string& path = make_way();
        if (!file_.valid()) {
            replace_text_file(path, recorded_load_header());
            file_ = FileDescriptor(open_in_place_or_fail(path, O_WRONLY | O_APPEND));
        }
        const std::string rows = std::exchange(rows_, {});
        if (const int error = write_all(file_.get(), rows); error != 0) {
            fail_errno(path, "cannot be written", error);
        }
    }

    FileDescriptor file_;  ///< once there are rows
    std::string rows_;     ///< that are not written
    std::size_t count_ = 0;
    bool failed_ = false;
};

/// Time without the pauses for evaluations, which cost a virtual cluster nothing.
class TraceHook final : public RecordHook {
public:
    TraceHook() : RecordHook("--record-trace", &TrainOptions::record_trace, "the trace") {}

    void on_start(TrainControl& run) override {
        RecordHook::on_start(run);
        const auto workers = static_cast<int>(run.cluster().workers.size());
        recorder_.emplace(workers, run.options().batch);
    }

    void on_push(TrainControl& run, const IterationRecord& record) override {
        recorder_->timed(record, run.clock().now().count() - pauses_s_);
    }

    void on_evaluation(TrainControl& /*run*/, const EvaluationReport& evaluation) override {
        pauses_s_ += evaluation.seconds;
    }

protected:
    [[nodiscard]] bool any() const override { return recorder_.has_value(); }
    void write(const std::string& path, const TrainOptions& /*options*/) override {
        const std::vector<TraceRow> rows = recorder_->rows();
        write_trace(path, rows);
        log_info("trace of the workers' own times: {} ({})", path, counted(rows.size(), "row"));
    }

private:
    std::optional<TraceRecorder> recorder_;
    double pauses_s_ = 0;
};

}  // namespace

std::unique_ptr<TrainHook> make_load_hook() {
    return std::make_unique<LoadHook>();
}

std::unique_ptr<TrainHook> make_trace_hook() {
    return std::make_unique<TraceHook>();
}

}  // namespace cohort
