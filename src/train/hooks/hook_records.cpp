#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/train/hooks.hpp"
#include "cohort/train/options.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "formats/recorded_load.hpp"
#include "formats/trace.hpp"
#include "train/hooks/record_hook.hpp"
#include "train/hooks/trace_recorder.hpp"

namespace cohort {
namespace {

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
