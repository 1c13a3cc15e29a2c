#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cohort/sched/predictor.hpp"
#include "sched/predict/lstm_model.hpp"

namespace cohort {

/// A predictor that looks at one worker at a time.
class WorkerPredictor : public Predictor {
public:
    /// @param batch  samples to which own times are scaled
    WorkerPredictor(int workers, std::int64_t batch) : workers_(workers), batch_(batch) {}

    void add(const IterationRecord& record) final;
    [[nodiscard]] Forecast predict() const final;

    /// @param own_s  own time of the record, seconds per batch, > 0
    virtual void add_own(const IterationRecord& record, double own_s) = 0;
    /// Predicts own times. @return false: the worker has no records
    [[nodiscard]] virtual bool predict_own(int worker,
                                           std::span<float, kMaxHorizon> own_s) const = 0;

private:
    int workers_;
    std::int64_t batch_;
};

[[nodiscard]] std::unique_ptr<WorkerPredictor> make_episodes_predictor(int workers,
                                                                       std::int64_t batch);
[[nodiscard]] std::unique_ptr<WorkerPredictor> make_lstm_predictor(
    int workers, std::int64_t batch, std::shared_ptr<const LstmNetwork> network);

}  // namespace cohort
