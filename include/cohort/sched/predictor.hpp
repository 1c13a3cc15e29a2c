#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/sched/telemetry.hpp"

namespace cohort {

/// Iterations ahead that predictions are made and judged for.
inline constexpr std::array<int, 3> kHorizons{1, 10, 30};
inline constexpr int kMaxHorizon = 30;

class LstmNetwork;  // lstm_model.hpp
struct LstmModel;

/// Predicted own times of every worker.
struct Forecast {
    /// [workers][kMaxHorizon] seconds per batch; a row is empty for a worker without records, all
    /// are empty without a forecast.
    std::vector<std::vector<float>> own_s;

    /// Mean own time of the next `iterations` (1..kMaxHorizon); 0: not known.
    [[nodiscard]] double mean(int worker, int iterations) const;
};

/// Predicts workers' own times from their records. Pure; not thread safe.
class Predictor {
public:
    Predictor() = default;
    Predictor(const Predictor&) = delete;
    Predictor& operator=(const Predictor&) = delete;
    virtual ~Predictor() = default;

    /// "last", "ewma", "episodes", "lstm", "auto"; simulations also: "oracle".
    [[nodiscard]] virtual std::string_view name() const = 0;
    /// The predictor that makes the forecasts: auto's present choice, else name().
    [[nodiscard]] virtual std::string_view uses() const { return name(); }
    /// Adds a record. Constant cost (lstm: one step of the model).
    virtual void add(const IterationRecord& record) = 0;
    virtual void forget(int worker) = 0;
    /// Forecast for all workers, for the next kMaxHorizon iterations.
    [[nodiscard]] virtual Forecast predict() const = 0;
    /// Continues with another model, if the predictor uses one.
    virtual void renew(const std::shared_ptr<const LstmNetwork>& /*network*/) {}
};

/// Score of a predictor at one of kHorizons.
struct PredictorScore {
    std::string predictor;
    std::string uses;  ///< Predictor::uses() at the end; empty where it is not known
    int horizon = 1;
    std::int64_t predictions = 0;
    double relative_error = 0;  ///< mean of |predicted - tau| / tau at that distance
    // "The worker is a straggler within the next `horizon` iterations", as counts and as shares; a
    // share of no cases is 0.
    std::int64_t hits = 0;          ///< predicted and true
    std::int64_t false_alarms = 0;  ///< predicted and not true
    std::int64_t misses = 0;        ///< true and not predicted
    double precision = 0;           ///< hits / predicted
    double recall = 0;              ///< hits / true
    double f1 = 0;                  ///< 2 hits / (2 hits + false alarms + misses)

    /// Adds the counts of another score of the same horizon.
    void merge(const PredictorScore& other);
};

/// Compares predictions with the records that follow. Add every record here before the predictor
/// gets it.
///
/// A forecast counts for every worker that has pushed since its last forecast that counted. It
/// predicts that the worker is a straggler within h iterations when the worker's time is more than
/// 1.2 times the minimum over all workers in one of the forecast's first h iterations. The
/// prediction is true when, in one of the next h recorded iterations, the worker's own time is more
/// than 1.2 times the minimum over all workers, taking of each worker the median of its last three
/// times (STAR's 20 % rule; a single odd time of another worker makes no worker slow). The relative
/// error at h is that of the h-th recorded time. Predictions whose iterations are never recorded do
/// not count.
class PredictorScores {
public:
    PredictorScores(const std::string& predictor, int workers, std::int64_t batch);
    ~PredictorScores();
    PredictorScores(PredictorScores&&) noexcept;
    PredictorScores& operator=(PredictorScores&&) noexcept;

    /// A forecast, made before the next records.
    void predicted(const Forecast& forecast);
    void came(const IterationRecord& record);
    /// The worker was lost: its open predictions do not count.
    void forget(int worker);
    /// One per horizon.
    [[nodiscard]] std::vector<PredictorScore> scores() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// Scores of a predictor that gets the records one by one and makes a forecast after each. @param
/// records  in the order of arrival
[[nodiscard]] std::vector<PredictorScore> replay_scores(Predictor& predictor,
                                                        std::span<const IterationRecord> records,
                                                        int workers, std::int64_t batch);

/// "last": the newest own time, for all iterations. "ewma": the mean of own times by OwnTime.
/// "episodes": the present level, and the levels that follow where earlier quick and slow phases
/// lasted equally long. "lstm": LstmModel, rolled out. "auto": the predictor of these with the
/// lowest recent error, mean of the relative errors at kHorizons; ewma until there are enough
/// errors; a predictor replaces the present one when its error is lower by a tenth. @param model
/// for "lstm" and "auto"; null for "auto": it chooses among the others Errors: UsageError for an
/// unknown name, or "lstm" without a model.
[[nodiscard]] std::unique_ptr<Predictor> make_predictor(
    std::string_view name, int workers, std::int64_t batch,
    const std::shared_ptr<const LstmModel>& model);

}  // namespace cohort
