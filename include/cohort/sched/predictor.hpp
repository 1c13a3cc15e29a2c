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

/// Own times to come of every worker.
struct Forecast {
    /// [workers][kMaxHorizon] seconds per batch; empty for a worker of which nothing is known, or
    /// altogether.
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

    /// "last", "ewma", "episodes", "lstm", "auto"; simulations also: "oracle".
    [[nodiscard]] virtual std::string_view name() const = 0;
    /// Whose forecasts it hands on: auto's choice of now, else its own name.
    [[nodiscard]] virtual std::string_view uses() const { return name(); }
    /// Takes note of a record. Constant cost (lstm: one step of the model).
    virtual void add(const IterationRecord& record) = 0;
    virtual void forget(int worker) = 0;
    /// Of all workers, for the next kMaxHorizon iterations.
    [[nodiscard]] virtual Forecast predict() const = 0;
    /// Goes on with another model, if it uses one.
    virtual void renew(const std::shared_ptr<const LstmNetwork>& /*network*/) {}
};

/// How good a predictor was, for each of kHorizons.
struct PredictorScore {
    std::string predictor;
    std::string uses;  ///< Predictor::uses() at the end; empty where nobody says
    int horizon = 1;
    std::int64_t predictions = 0;
    double relative_error = 0;  ///< mean of |predicted - tau| / tau at that distance
    // "Is a straggler within the next `horizon` iterations", as counted and as shares; shares of
    // nothing are 0.
    std::int64_t hits = 0;          ///< it was predicted and came
    std::int64_t false_alarms = 0;  ///< was predicted and did not come
    std::int64_t misses = 0;        ///< came and was not predicted
    double precision = 0;           ///< hits / predicted
    double recall = 0;              ///< hits / came
    double f1 = 0;                  ///< 2 hits / (2 hits + false alarms + misses)

    /// Takes another one's predictions as well, of the same horizon.
    void merge(const PredictorScore& other);
};

/// Compares predictions with what came. Feed it every record, before the predictor gets it.
///
/// A forecast counts for every worker that pushed since the last one that counted. With it the
/// worker is predicted to be a straggler within h iterations when its time is more than 1.2 times
/// the least of all workers' in one of the forecast's first h; it was one when, in one of the next
/// h that came, its own time was more than 1.2 times the least of all workers', of each of them the
/// median of its last three (STAR's 20 % rule; one odd time of somebody else makes nobody slow).
/// The relative error at h is that of the h-th time to come. What has not come counts nowhere.
class PredictorScores {
public:
    PredictorScores(std::string predictor, int workers, std::int64_t batch);
    ~PredictorScores();
    PredictorScores(PredictorScores&&) noexcept;
    PredictorScores& operator=(PredictorScores&&) noexcept;

    /// What was predicted before the next records come.
    void predicted(const Forecast& forecast);
    void came(const IterationRecord& record);
    /// It is gone; its predictions that are open count nowhere.
    void forget(int worker);
    /// One per horizon.
    [[nodiscard]] std::vector<PredictorScore> scores() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// What a predictor would have been worth: it gets the records in turn, and is asked after each.
/// @param records  in the order in which they arrived
[[nodiscard]] std::vector<PredictorScore> replay_scores(Predictor& predictor,
                                                        std::span<const IterationRecord> records,
                                                        int workers, std::int64_t batch);

/// "last": the newest own time, for all that come. "ewma": their mean as OwnTime forms it.
/// "episodes": the level of now, and the ones that follow it when quick and slow phases have lasted
/// alike before. "lstm": LstmModel, rolled out. "auto": whichever of these was off least lately,
/// mean of the relative errors at kHorizons; ewma before there are enough; another one takes over
/// when its error is lower by a tenth.
/// @param model  for "lstm" and "auto"; may be null for "auto": then it chooses among the others
/// Errors: UsageError for an unknown name, or "lstm" without a model.
[[nodiscard]] std::unique_ptr<Predictor> make_predictor(
    std::string_view name, int workers, std::int64_t batch,
    const std::shared_ptr<const LstmModel>& model);

}  // namespace cohort
