#pragma once

#include <span>

#include "train/fit/predictor_trainer.hpp"

namespace cohort::test {

/// Errors of a model one record ahead, over adjacent windows of these series.
inline PredictorError predictor_error(const LstmModel& model,
                                      std::span<const PredictorSeries> series) {
    PredictorTrainer trainer(1);
    trainer.load(model);
    return trainer.error(cut_windows(series, LstmModel::kWindow, 0));
}

}  // namespace cohort::test
