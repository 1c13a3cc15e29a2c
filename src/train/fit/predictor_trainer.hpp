#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cohort/model/replica.hpp"
#include "cohort/optim/optimizer.hpp"
#include "sched/predict/lstm_model.hpp"
#include "train/fit/predictor_training.hpp"

namespace cohort {

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
