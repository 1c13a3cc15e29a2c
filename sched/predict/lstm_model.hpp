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
/// STAR's features are cpu share, in-rate and out-rate. They do not show a slow device or a
/// constant delay, so the own time itself is a fourth feature. STAR's window is 30 records; a hog
/// that comes and goes every 60 iterations is not visible in it, so the window here is 128.
struct LstmModel {
    static constexpr int kWindow = 128;
    static constexpr int kFeatures = 4;
    /// Index of the feature log(own time / the worker's usual own time), which is also the output
    /// of the time network for the next record.
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

/// Computes the network's features from a worker's records, before z-scoring, both for training and
/// use. In order: cpu share; log of the in- and out-rate over the worker's usual full rate; log of
/// the own time over its usual one. Usual: the full rate is the ninth decile of its last 256
/// records, the usual own time their second decile, so that it does not change while at most four
/// fifths of the times are slow. So models fit jobs of any size and speed.
class LstmScale {
public:
    /// Adds the worker's next record. @param own_s  > 0, seconds per batch
    [[nodiscard]] LstmFeatures add(const ResourceUse& use, double own_s);
    /// Own time, seconds per batch, for `log_time` at the present scale.
    [[nodiscard]] double own_s(float log_time) const;

private:
    NewestQuantile own_;
    NewestQuantile rx_;
    NewestQuantile tx_;
};

/// Features of a worker's consecutive records; the targets of a position are the features of the
/// next position, and its kTime once more.
struct PredictorSeries {
    std::vector<LstmFeatures> features;
};
/// The series of one worker's records, in order. @param batch  samples to which own times are
/// scaled
[[nodiscard]] PredictorSeries predictor_series(std::span<const IterationRecord> records,
                                               std::int64_t batch);

/// A worker's hidden and cell state: [2 layers][64] each.
struct LstmState {
    std::array<std::array<float, LstmModel::kHidden>, LstmModel::kLayers> hidden{};
    std::array<std::array<float, LstmModel::kHidden>, LstmModel::kLayers> cell{};
};

/// A model ready to be used, with transposed weights, so that a step runs along vectors.
class LstmNetwork {
public:
    using Outputs = std::array<float, LstmModel::kOutputs>;

    /// Errors: UsageError when the number of parameters is not parameter_count().
    explicit LstmNetwork(const LstmModel& model);

    /// Computes one position from scaled features and advances the state. Equal to the training
    /// engine's inference to 1e-5. @return scaled next features, then the scaled next time
    [[nodiscard]] Outputs step(const LstmFeatures& scaled, LstmState& state) const;
    [[nodiscard]] LstmFeatures scaled(const LstmFeatures& features) const;
    /// Logarithm of an own time over the usual one, from the output of step().
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
        Dense hidden;  ///< without a bias
    };

    LstmModel scaling_;  ///< without parameters
    std::array<Cell, LstmModel::kLayers> cells_;
    Dense resources_;
    std::array<Dense, LstmModel::kTimeNetwork.size() - 1> time_;
};

}  // namespace cohort
