#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/train/hooks.hpp"
#include "cohort/train/options.hpp"
#include "core/log.hpp"
#include "formats/recorded_load.hpp"
#include "train/run/record_file.hpp"

namespace cohort {
namespace {

/// Records every iteration in the order of arrival, at most kMost.
class LoadHook final : public TrainHook {
public:
    /// A file that cannot be written ends the run at its start.
    void on_start(TrainControl& run) override {
        file_.emplace("--record-load", run.options().record_load, run.options());
    }

    void on_push(TrainControl& /*run*/, const IterationRecord& record) override {
        if (records_.size() < kMost && record.samples > 0) {
            records_.push_back(record);
        }
    }

    void on_end(TrainControl& run, StopReason /*reason*/) override { write(run); }
    void on_failure(TrainControl& run) override { write(run); }

private:
    static constexpr std::size_t kMost = 200'000;

    /// At the end of a run other results remain to be saved: a full disk is logged, not thrown.
    void write(TrainControl& run) {
        if (records_.empty()) {
            return;
        }
        try {
            const std::string& file = file_->make_room();
            write_recorded_load(file, records_, run.options().batch);
            log_info("the workers' load: {} ({} iteration(s))", file, records_.size());
        } catch (const FileError& error) {
            log_error("the workers' load was not saved: {}", error.what());
        }
    }

    std::vector<IterationRecord> records_;
    std::optional<RecordFile> file_;
};

}  // namespace

std::unique_ptr<TrainHook> make_load_hook() {
    return std::make_unique<LoadHook>();
}

}  // namespace cohort
