#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cohort/sched/telemetry.hpp"
#include "sched/telemetry/newest_quantile.hpp"

namespace cohort {

/// The joint predictor of resources and time of STAR, section 4.1: z-scored features of a record
/// -> two LSTM layers of 64 -> linear: the next record's features -> F-256-128-1 with ReLU: the
/// next time. Trained by src/train (predictor_training.hpp), used here; one scaling for both.
///
/// STAR's features are cpu share, in-rate and out-rate. They cannot tell a slow device or a
/// constant delay, so the own time itself is a fourth. STAR's window is 30 records; a hog that
/// comes and goes every 60 iterations is not to be seen in it, so here it is 128.
struct LstmModel {
    static constexpr int kWindow = 128;
    static constexpr int kFeatures = 4;
    /// Of the features: log(own time / the worker's usual one); also what the time network says
    /// of the next record.
    static constexpr int kTime = 3;
    static constexpr int kHidden = 64;
    static constexpr int kLayers = 2;
    static constexpr std::array<int, 4> kTimeNetwork{kFeatures, 256, 128, 1};
    /// The next features, then the next time.
    static constexpr int kOutputs = kFeatures + 1;

    std::array<float, kFeatures> feature_mean{};
    std::array<float, kFeatures> feature_deviation{1, 1, 1, 1};
    float time_mean = 0;
    float time_deviation = 1;
    /// Flat, row-major: for each LSTM layer weight_input [4H,F], weight_hidden [4H,H], bias [4H]
    /// (gates i, f, g, o); linear weight [F,H], bias [F]; then weight [out,in] and bias [out] of
    /// the time network's three layers.
    std::vector<float> parameters;

    /// Number of parameters.
    [[nodiscard]] static std::int64_t parameter_count();
};

using LstmFeatures = std::array<float, LstmModel::kFeatures>;

/// What the network sees of a worker's records, before z-scoring: the only place that knows, for
/// training and use. In order: cpu share; log of the in- and out-rate over the worker's usual full
/// rate; log of the own time over its usual one. Usual: the full rate is the ninth decile of its
/// last 256 records, the usual own time their second decile, so that slow times up to four fifths
/// of them leave it as it is. So models fit jobs of any size and speed.
class LstmScale {
public:
    /// Takes note of the worker's next record. @param own_s  > 0, seconds per batch
    [[nodiscard]] LstmFeatures add(const ResourceUse& use, double own_s);
    /// Own time, seconds per batch, that `log_time` stands for now.
    [[nodiscard]] double own_s(float log_time) const;

private:
    NewestQuantile own_;
    NewestQuantile rx_;
    NewestQuantile tx_;
};

/// A worker's consecutive records, as the network sees them; targets of a position are the
/// features of the one after it, and its kTime once more.
struct PredictorSeries {
    std::vector<LstmFeatures> features;
};
/// Of one worker's records, in order. @param batch  samples to which own times are scaled
[[nodiscard]] PredictorSeries predictor_series(std::span<const IterationRecord> records,
                                               std::int64_t batch);

/// A worker's hidden and cell state: [2 layers][64] each.
struct LstmState {
    std::array<std::array<float, LstmModel::kHidden>, LstmModel::kLayers> hidden{};
    std::array<std::array<float, LstmModel::kHidden>, LstmModel::kLayers> cell{};
};

/// A model ready to be used: its weights the other way round, so that a step runs along vectors.
class LstmNetwork {
public:
    using Outputs = std::array<float, LstmModel::kOutputs>;

    /// Errors: UsageError when the number of parameters is not parameter_count().
    explicit LstmNetwork(const LstmModel& model);

    /// One position: takes scaled features, moves the state on. Equal to the training engine's
    /// inference to 1e-5. @return scaled next features, then the scaled next time
    [[nodiscard]] Outputs step(const LstmFeatures& scaled, LstmState& state) const;
    [[nodiscard]] LstmFeatures scaled(const LstmFeatures& features) const;
    /// Log of an own time over the usual one, from what step() says of it.
    [[nodiscard]] float log_time(float scaled_time) const;

private:
    /// y = W x + b, W [out,in] kept as [in,out].
    struct Dense {
        int in = 0;
        int out = 0;
        std::vector<float> weights;
        std::vector<float> bias;
    };
    struct Cell {
        Dense input;
        Dense hidden;  ///< its bias is 0
    };
    class Reader;

    LstmModel scaling_;  ///< without parameters
    std::array<Cell, LstmModel::kLayers> cells_;
    Dense resources_;
    std::array<Dense, LstmModel::kTimeNetwork.size() - 1> time_;
};

}  // namespace cohort
