#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "cohort/model/graph.hpp"
#include "sched/predict/lstm_model.hpp"

namespace cohort {

/// The network of LstmModel for this engine: [kWindow, kFeatures] -> two LSTM layers -> the next
/// features at every position -> the time network; outputs [kWindow, kOutputs], trained by mean
/// squared error. Its parameters come in the order of LstmModel::parameters, but every tensor
/// begins at a multiple of FlatLayout::kAlignment.
[[nodiscard]] Graph predictor_graph();

struct PredictorTrainingOptions {
    std::int64_t epochs = 60;   ///< at most
    std::int64_t patience = 8;  ///< epochs without a better held-out error end the training
    std::int64_t batch = 32;    ///< windows per step
    std::int64_t stride = 32;   ///< records from one window's start to the next, >= 1
    double lr = 1e-3;           ///< of Adam; falls to a tenth of it over the epochs (cosine)
    double held_out = 0.15;     ///< share of the series kept for judging
    std::uint64_t seed = 1;
    int threads = 1;
};

/// Mean squared errors of z-scored outputs: 1 is the error of predicting the mean.
struct PredictorError {
    double all = 0;   ///< over features and time
    double time = 0;  ///< of the next log own time alone
};

/// Progress after an epoch.
struct PredictorProgress {
    std::int64_t epoch = 0;     ///< from 1
    double training_error = 0;  ///< as PredictorError::all, mean over the epoch's steps
    PredictorError held_out;
    bool best = false;  ///< the lowest held-out error so far: these parameters are kept
};

/// Trains LstmModel: Adam on the mean squared error over all outputs and positions, windows of
/// kWindow records, shuffled and shifted differently in every epoch; the parameters with the lowest
/// error on held-out series are kept (with a single series, on its own windows). Deterministic for
/// given series, options and machine. Blocks. Errors: UsageError when no series has more than
/// kWindow records, or for options out of range.
[[nodiscard]] LstmModel train_predictor(
    std::span<const PredictorSeries> series, const PredictorTrainingOptions& options,
    const std::function<void(const PredictorProgress&)>& progress = {});

/// Errors of a model one record ahead, over adjacent windows of these series.
/// Errors: UsageError when no series has more than kWindow records.
[[nodiscard]] PredictorError predictor_error(const LstmModel& model,
                                             std::span<const PredictorSeries> series);

}  // namespace cohort
