#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "cohort/sched/predictor.hpp"
#include "sched/predict/lstm_model.hpp"

namespace cohort {

/// A predictor that looks at one worker at a time.
class WorkerPredictor {
public:
    WorkerPredictor() = default;
    WorkerPredictor(const WorkerPredictor&) = delete;
    WorkerPredictor& operator=(const WorkerPredictor&) = delete;
    virtual ~WorkerPredictor() = default;

    [[nodiscard]] virtual std::string_view name() const = 0;
    [[nodiscard]] virtual std::string_view uses() const { return name(); }
    /// @param own_s  own time of the record, seconds per batch, > 0
    virtual void add(const IterationRecord& record, double own_s) = 0;
    virtual void forget(int worker) = 0;
    /// Predicts own times. @return false: the worker has no records
    [[nodiscard]] virtual bool predict(int worker, std::span<float, kMaxHorizon> own_s) const = 0;
    virtual void renew(const std::shared_ptr<const LstmNetwork>& /*network*/) {}
};

[[nodiscard]] std::unique_ptr<WorkerPredictor> make_last_predictor(int workers);
[[nodiscard]] std::unique_ptr<WorkerPredictor> make_ewma_predictor(int workers);
[[nodiscard]] std::unique_ptr<WorkerPredictor> make_episodes_predictor(int workers);
[[nodiscard]] std::unique_ptr<WorkerPredictor> make_lstm_predictor(
    int workers, std::shared_ptr<const LstmNetwork> network);
/// @param candidates  the first one is used until there are errors to compare
[[nodiscard]] std::unique_ptr<WorkerPredictor> make_auto_predictor(
    int workers, std::vector<std::unique_ptr<WorkerPredictor>> candidates);

}  // namespace cohort
