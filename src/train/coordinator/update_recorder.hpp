#pragma once

#include <cstdint>

#include "cohort/data/order.hpp"
#include "sched/session/failed_samples.hpp"
#include "train/coordinator/checkpoint/checkpoint_coordinator.hpp"
#include "train/coordinator/checkpoint/mirror_coordinator.hpp"
#include "train/coordinator/evaluation/run_evaluations.hpp"
#include "train/coordinator/modes/refined_consultation.hpp"
#include "train/coordinator/update_driver.hpp"

namespace cohort {

/// Enters updates and iterations into what a run keeps: progress, metrics, times, evaluations,
/// checkpoints.
class UpdateRecorder final : public UpdateObserver {
public:
    /// What is entered into; all of it outlives the recorder.
    struct Records {
        const JobContext& parts;
        TrainingSession& session;
        RunReporter& reporter;
        RefinedConsultation& consultation;
        RunEvaluations& evaluations;
        CheckpointCoordinator& checkpoints;
        MirrorCoordinator& mirrors;
    };
    /// @param servers  workers send their gradients by themselves, to parameter servers
    UpdateRecorder(Records records, bool servers)
        : records_(records),
          samples_(records.parts.train_set->info(), records.parts.order),
          servers_(servers) {}

    [[nodiscard]] TrainingSession& session() override { return records_.session; }
    [[nodiscard]] UpdateExtras decide(std::int64_t samples) override;
    void updated(const UpdateOrder& update) override {
        failed_.finite();
        records_.reporter.updated(update);
    }
    void taken(const UpdateExtras& extras, int evaluation_parts) override;
    void drop(const NonFiniteBatch& batch) override;
    void undone(std::int64_t updates, std::int64_t samples, const std::string& why) override;
    void spent(double compute_s, double exposed_s, double exchange_s) override;
    void timed(const IterationRecord& measured) override;
    /// Fills in the mean times of mini-batches.
    void summarize(TrainSummary& summary) const;

private:
    [[nodiscard]] RunSnapshot snapshot() const;

    Records records_;
    SliceReader samples_;   ///< of leases
    FailedSamples failed_;  ///< in this part of the run
    bool servers_;
    std::int64_t batches_ = 0;  ///< whose times are summed
    double compute_s_ = 0;
    double exposed_s_ = 0;
    double exchange_s_ = 0;
};

}  // namespace cohort
