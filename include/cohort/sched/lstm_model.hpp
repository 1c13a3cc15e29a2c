#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cohort/sched/telemetry.hpp"

namespace cohort {

/// The joint predictor of resources and time of STAR, section 4.1: a window of 30 z-scored (cpu
/// share, in-rate, out-rate) -> two LSTM layers of 64 -> linear: the next (cpu share, in-rate,
/// out-rate) -> 3-256-128-1 with ReLU: the next log own time over the worker's usual one. Trained
/// by src/train (predictor_training.hpp), used here; one scaling for both.
struct LstmModel {
    static constexpr int kWindow = 30;
    static constexpr int kFeatures = 3;
    static constexpr int kHidden = 64;
    static constexpr int kLayers = 2;
    static constexpr std::array<int, 4> kTimeNetwork{3, 256, 128, 1};
    static constexpr int kOutputs = kFeatures + 1;

    std::array<float, kFeatures> feature_mean{};
    std::array<float, kFeatures> feature_deviation{1, 1, 1};
    float time_mean = 0;
    float time_deviation = 1;
    /// In the order and layout of the flat parameter buffer of predictor_graph() (train).
    std::vector<float> parameters;

    /// Number of parameters.
    [[nodiscard]] static std::int64_t parameter_count();
};

/// Features of a record before scaling; the same in training and use.
[[nodiscard]] std::array<float, LstmModel::kFeatures> lstm_features(const IterationRecord& record);

/// A worker's hidden and cell state: [2 layers][64] each.
struct LstmState {
    std::array<std::array<float, LstmModel::kHidden>, LstmModel::kLayers> hidden{};
    std::array<std::array<float, LstmModel::kHidden>, LstmModel::kLayers> cell{};
};

/// One position: takes scaled features, moves the state on.
/// @return scaled next features, then the scaled next time
[[nodiscard]] std::array<float, LstmModel::kOutputs> lstm_step(
    const LstmModel& model, std::span<const float, LstmModel::kFeatures> features,
    LstmState& state);

}  // namespace cohort
