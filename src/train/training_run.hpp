#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/data/lease.hpp"
#include "cohort/train/hooks.hpp"
#include "cohort/train/metrics_file.hpp"
#include "cohort/train/snapshot.hpp"
#include "cohort/train/trainer.hpp"
#include "run_lock.hpp"
#include "train_parts.hpp"

namespace cohort {

/// The training loop of one rank and what its hooks may ask for.
class Trainer::Run final : public TrainControl {
public:
    Run(const TrainOptions& options, const TrainEnvironment& environment);

    [[nodiscard]] const TrainParts& parts() const noexcept { return parts_; }
    TrainSummary run();

    [[nodiscard]] const TrainOptions& options() const override { return options_; }
    [[nodiscard]] const TrainProgress& progress() const override { return progress_; }
    [[nodiscard]] const Clock& clock() const override { return *environment_.clock; }
    [[nodiscard]] std::int64_t budget_samples() const override { return parts_.budget_samples; }
    [[nodiscard]] std::int64_t epoch_samples() const override {
        return parts_.train_set->info().samples;
    }
    [[nodiscard]] MetricsFile& metrics() override { return *metrics_; }
    void request_stop(StopReason reason) override;
    void reach_target() override;
    void evaluate() override;
    [[nodiscard]] TrainSnapshot snapshot() override;
    void report_checkpoint(const CheckpointReport& checkpoint) override;

private:
    void begin();
    void make_hooks();
    void restore(const TrainSnapshot& snapshot);
    void loop();
    void keep_leased();
    StepReport train_on(const LoadedBatch& batch);
    void settle(const Lease& lease, const StepReport& step);
    void report_memory();
    void return_leases();
    void save_model();
    void update_times();
    [[nodiscard]] SampleAccounts accounts() const;
    [[nodiscard]] TrainSummary summarize();

    TrainOptions options_;
    TrainEnvironment environment_;
    TrainParts parts_;
    TrainProgress progress_;
    TrainProgress earlier_;  ///< of the parts before this one (times)
    SampleAccounts earlier_accounts_;
    SampleAccounts now_;  ///< returned in this part, by reason
    std::optional<LeaseBook> book_;
    std::int64_t submitted_ = 0;  ///< leases in the loader
    std::optional<StopReason> stop_;
    std::optional<EvaluationReport> test_;
    bool memory_reported_ = false;
    bool outputs_saved_ = true;
    Clock::Seconds started_{0};
    double pauses_ = 0;  ///< seconds spent evaluating in this part
    double cpu_at_start_ = 0;
    std::optional<RunLock> lock_;  ///< on the output folder
    std::unique_ptr<MetricsFile> metrics_;
    std::vector<std::unique_ptr<TrainHook>> hooks_;  ///< last member: ends background writes first
};

/// The summary as the last line of metrics.jsonl.
[[nodiscard]] std::string summary_json(const TrainSummary& summary, const TrainOptions& options);
/// Its first line.
[[nodiscard]] std::string start_json(const TrainOptions& options, const TrainParts& parts,
                                     const TrainProgress& progress);

/// Its last line when the run ends with an error.
[[nodiscard]] std::string error_json(const std::exception& error, int exit_code,
                                     const TrainProgress& progress);

/// Why the numbers of a step cannot be used; empty when they are finite.
[[nodiscard]] std::string non_finite_reason(const BatchResult& result, Replica& replica);

}  // namespace cohort
