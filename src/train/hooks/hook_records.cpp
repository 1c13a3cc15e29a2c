#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/train/hooks.hpp"
#include "cohort/train/options.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "formats/recorded_load.hpp"
#include "formats/trace.hpp"
#include "train/hooks/trace_recorder.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

/// Whether a file exists; true also for a link that leads nowhere.
bool is_there(const std::string& path) {
    std::error_code error;
    return fs::exists(fs::symlink_status(path, error));
}

void rename_to_next(const std::string& file) {
    int number = 1;
    while (is_there(file + "." + std::to_string(number))) {
        ++number;
    }
    const std::string name = file + "." + std::to_string(number);
    std::error_code error;
    fs::rename(file, name, error);
    if (error) {
        fail_errno(name, "cannot be made", error.value());
    }
    log_info("what {} held is now {}", file, name);
}

/// Records the run in a file outside --out. An older file stays until there is a new one:
/// --overwrite replaces it, otherwise it is renamed to FILE.1, or the next number, like the
/// recording of the part before a resume.
class RecordHook : public TrainHook {
public:
    /// @param option  names the file, which is `path` of the options  @param what  is recorded
    RecordHook(const char* option, std::string TrainOptions::*path, const char* what)
        : option_(option), path_of_(path), what_(what) {}

    /// Errors: UsageError when the file exists without --resume or --overwrite; FileError when it
    /// cannot be written: both end the run at its start.
    void on_start(TrainControl& run) override {
        const TrainOptions& options = run.options();
        const OutputFile file = check_record(option_, options.*path_of_, options);
        check_folder_of(file);
        path_ = file.path;
        keep_ = !options.overwrite;
    }
    void on_end(TrainControl& run, StopReason /*reason*/) final { save(run); }
    void on_failure(TrainControl& run) final { save(run); }

protected:
    [[nodiscard]] virtual bool any() const = 0;
    /// Errors: FileError.
    virtual void write(const std::string& path, const TrainOptions& options) = 0;

private:
    /// At the end of a run other results remain to be saved: a full disk is logged, not thrown.
    void save(const TrainControl& run) {
        if (path_.empty() || !any()) {
            return;
        }
        try {
            if (std::exchange(keep_, false) && is_there(path_)) {
                rename_to_next(path_);
            }
            write(path_, run.options());
        } catch (const FileError& error) {
            log_error("{} was not saved: {}", what_, error.what());
        }
    }

    const char* option_;
    std::string TrainOptions::*path_of_;
    const char* what_;
    std::string path_;   ///< empty: the run has not started
    bool keep_ = false;  ///< an older file is kept under another name
};

/// Records every iteration in the order of arrival, at most kMost.
class LoadHook final : public RecordHook {
public:
    LoadHook() : RecordHook("--record-load", &TrainOptions::record_load, "the workers' load") {}

    void on_push(TrainControl& /*run*/, const IterationRecord& record) override {
        if (records_.size() < kMost && record.samples > 0) {
            records_.push_back(record);
        }
    }

protected:
    [[nodiscard]] bool any() const override { return !records_.empty(); }
    void write(const std::string& path, const TrainOptions& options) override {
        write_recorded_load(path, records_, options.batch);
        log_info("the workers' load: {} ({})", path, counted(records_.size(), "iteration"));
    }

private:
    static constexpr std::size_t kMost = 200'000;

    std::vector<IterationRecord> records_;
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
