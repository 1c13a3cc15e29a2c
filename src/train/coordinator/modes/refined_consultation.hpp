#pragma once

#include <memory>

#include "sched/session/training_session.hpp"
#include "train/coordinator/modes/predictor_refiner.hpp"

namespace cohort {

/// A consultation that refines the model behind the forecasts beside the run.
class RefinedConsultation final : public ModeConsultation {
public:
    /// @param session  outlives it  @param model  of the predictor; null: it needs none
    RefinedConsultation(TrainingSession& session, std::shared_ptr<const LstmModel> model);

    /// The refined model learns from the record.
    void timed(const IterationRecord& record);
    /// A worker was lost or has joined again: the refiner forgets the worker's records, and the
    /// next consult() asks the mode.
    void worker_changed(int worker);
    [[nodiscard]] RefinerUse use() const { return refiner_ ? refiner_->use() : RefinerUse(); }

private:
    void keep_forecasts() override;

    std::shared_ptr<const LstmModel> model_;
    std::unique_ptr<PredictorRefiner> refiner_;
};

}  // namespace cohort
