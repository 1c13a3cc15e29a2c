#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cohort/model/graph.hpp"
#include "cohort/model/replica.hpp"
#include "cohort/optim/optimizer.hpp"
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

/// kWindow + 1 consecutive records of a series.
struct PredictorWindow {
    const LstmFeatures* first = nullptr;
};

/// Windows of series, `stride` records apart, the first one at `shift`. Pointers into the series.
[[nodiscard]] std::vector<PredictorWindow> cut_windows(std::span<const PredictorSeries> series,
                                                       std::int64_t stride, std::int64_t shift);

/// The predictor network with its optimizer. All work is done by the calling thread and those of
/// its device.
class PredictorTrainer {
public:
    explicit PredictorTrainer(int threads);

    /// New parameters from `seed`; scaling from the features of these series.
    void begin(std::span<const PredictorSeries> series, std::uint64_t seed);
    /// Loads a model's parameters and scaling; the optimizer restarts.
    void load(const LstmModel& model);
    [[nodiscard]] LstmModel model();

    /// One step of Adam. @return the mean squared error before it
    double step(std::span<const PredictorWindow> windows, double lr);
    /// @param from  first position that counts
    [[nodiscard]] PredictorError error(std::span<const PredictorWindow> windows,
                                       std::int64_t from = 0);

private:
    void reset_optimizer();
    /// Scales windows into samples_ and targets_.
    [[nodiscard]] BatchView fill(std::span<const PredictorWindow> windows);

    std::unique_ptr<Device> device_;
    Replica replica_;
    std::unique_ptr<Optimizer> optimizer_;
    LstmModel scaling_;  ///< without parameters
    std::vector<float> samples_;
    std::vector<float> targets_;
};

}  // namespace cohort
