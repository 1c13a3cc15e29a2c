#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/sched/telemetry.hpp"

namespace cohort {

/// Iterations ahead that predictions are made and judged for.
inline constexpr std::array<int, 3> kHorizons{1, 10, 30};
inline constexpr int kMaxHorizon = 30;

/// Own times to come of every worker.
struct Forecast {
    /// [workers][kMaxHorizon] seconds per batch; empty for a worker of which nothing is known.
    std::vector<std::vector<float>> own_s;

    /// Of the next iteration; 0: nothing known.
    [[nodiscard]] double next(int worker) const;
    /// Mean of the next `iterations` (1..kMaxHorizon); 0: nothing known.
    [[nodiscard]] double mean(int worker, int iterations) const;
};

/// Predicts workers' own times from what was recorded. Pure; not thread safe.
class Predictor {
public:
    Predictor() = default;
    Predictor(const Predictor&) = delete;
    Predictor& operator=(const Predictor&) = delete;
    virtual ~Predictor() = default;

    /// "last", "ewma", "lstm", "auto".
    [[nodiscard]] virtual std::string_view name() const = 0;
    /// Takes note of a record. Constant cost (lstm: one step of the model).
    virtual void add(const IterationRecord& record) = 0;
    virtual void forget(int worker) = 0;
    /// Of all workers, for the next kMaxHorizon iterations.
    [[nodiscard]] virtual Forecast predict() const = 0;
};

/// How good a predictor was, for each of kHorizons.
struct PredictorScore {
    std::string predictor;
    int horizon = 1;
    std::int64_t predictions = 0;
    double relative_error = 0;  ///< mean of |predicted - tau| / tau at that distance
    // "Is a straggler within the next `horizon` iterations."
    double precision = 0;
    double recall = 0;
    double f1 = 0;
};

/// Compares predictions with what came. Feed it every record, before the predictor gets it.
class PredictorScores {
public:
    PredictorScores(std::string predictor, int workers, std::int64_t batch);
    ~PredictorScores();
    PredictorScores(PredictorScores&&) noexcept;
    PredictorScores& operator=(PredictorScores&&) noexcept;

    /// What was predicted before the next records come.
    void predicted(const Forecast& forecast);
    void came(const IterationRecord& record);
    /// One per horizon.
    [[nodiscard]] std::vector<PredictorScore> scores() const;
    /// Recent mean relative error one iteration ahead (exponentially weighted); 0: none yet.
    [[nodiscard]] double recent_error() const noexcept;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

struct LstmModel;  // lstm_model.hpp

/// @param model  for "lstm" and "auto"; may be null for "auto": then it chooses among the others
/// Errors: UsageError for an unknown name, or "lstm" without a model.
[[nodiscard]] std::unique_ptr<Predictor> make_predictor(
    std::string_view name, int workers, std::int64_t batch,
    const std::shared_ptr<const LstmModel>& model);

}  // namespace cohort
