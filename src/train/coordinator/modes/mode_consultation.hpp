#pragma once

#include <memory>
#include <optional>

#include "cohort/core/clock.hpp"
#include "session/training_session.hpp"
#include "train/coordinator/modes/predictor_refiner.hpp"

namespace cohort {

/// Asks the mode in charge what comes next, and refines the model behind its forecasts beside the
/// run.
class ModeConsultation {
public:
    /// All of them outlive it. @param model  of the predictor; null: it needs none
    ModeConsultation(TrainingSession& session, const Clock& clock,
                     std::shared_ptr<const LstmModel> model);

    /// Seconds until the mode wants to be asked although no update was made.
    [[nodiscard]] std::optional<double> wake_s() const;
    /// Asks the mode when there is something new, or when it is time.
    /// @param due  see TrainingSession::wants_consultation
    [[nodiscard]] std::optional<PlanChange> consult(bool due);
    /// The refined model learns from the record.
    void timed(const IterationRecord& record);
    /// What was recorded of a worker says nothing about what it will be.
    void forget(int worker);
    [[nodiscard]] RefinerUse use() const { return refiner_ ? refiner_->use() : RefinerUse(); }

private:
    void keep_forecasts();

    TrainingSession& session_;
    const Clock& clock_;
    std::shared_ptr<const LstmModel> model_;
    std::unique_ptr<PredictorRefiner> refiner_;
};

}  // namespace cohort
