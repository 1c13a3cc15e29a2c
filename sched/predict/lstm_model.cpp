// The predictor network's features and its inference: one position at a time. Weights are kept
// input by input, so that the inner loops add a multiple of one vector to another: no sums over
// lanes. A step reads all parameters once, 340 kB.
#include "sched/predict/lstm_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <string>

#include "cohort/core/error.hpp"
#include "core/system/simd.hpp"

namespace cohort {
namespace {

constexpr int kHidden = LstmModel::kHidden;
constexpr int kGates = 4 * kHidden;

constexpr double kUsualOwn = 0.2;        ///< of sorted own times
constexpr double kUsualRate = 0.9;       ///< of sorted rates
constexpr double kLeastRate = 1.0 / 64;  ///< least rate, relative to the usual one
constexpr double kMostRate = 2;

/// e^x to a few units in the last place, |x| < 87; vectorises, unlike std::exp.
inline float exponential(float x) {
    constexpr float kLog2e = 1.44269504F;
    constexpr float kLn2High = 0.693359375F;
    constexpr float kLn2Low = -2.12194440e-4F;
    constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
    const float clamped = std::min(std::max(x, -87.0F), 87.0F);
    const float shifted = clamped * kLog2e + kRound;
    const float whole = shifted - kRound;
    const float rest = clamped - whole * kLn2High - whole * kLn2Low;
    float sum = 1.0F / 5040;
    sum = sum * rest + 1.0F / 720;
    sum = sum * rest + 1.0F / 120;
    sum = sum * rest + 1.0F / 24;
    sum = sum * rest + 1.0F / 6;
    sum = sum * rest + 0.5F;
    sum = sum * rest + 1.0F;
    sum = sum * rest + 1.0F;
    const std::int32_t power = std::bit_cast<std::int32_t>(shifted) << 23;
    return std::bit_cast<float>(std::bit_cast<std::int32_t>(sum) + power);
}

inline float sigmoid(float x) {
    return 1.0F / (1.0F + exponential(-x));
}

inline float tangent(float x) {
    return 2.0F * sigmoid(2.0F * x) - 1.0F;
}

/// y[out] += W x, W as [in,out].
COHORT_SIMD_CLONES void add_product(const float* weights, const float* x, int in, int out,
                                    float* y) {
    for (int i = 0; i < in; ++i) {
        const float factor = x[i];
        const float* row = weights + static_cast<std::ptrdiff_t>(i) * out;
        for (int o = 0; o < out; ++o) {
            y[o] += factor * row[o];
        }
    }
}

/// @param gates  before their activation: input, forget, candidate, output, [4][kHidden]
COHORT_SIMD_CLONES void move_cell(const float* gates, float* cell, float* hidden) {
    for (int h = 0; h < kHidden; ++h) {
        const float input = sigmoid(gates[h]);
        const float forget = sigmoid(gates[kHidden + h]);
        const float candidate = tangent(gates[2 * kHidden + h]);
        const float output = sigmoid(gates[3 * kHidden + h]);
        cell[h] = forget * cell[h] + input * candidate;
        hidden[h] = output * tangent(cell[h]);
    }
}

constexpr std::int64_t dense_count(std::int64_t in, std::int64_t out) {
    return in * out + out;
}

}  // namespace

LstmFeatures LstmScale::add(const ResourceUse& use, double own_s) {
    const auto log_rate = [](NewestQuantile& rates, double bytes_s) {
        if (bytes_s > 0) {
            rates.add(static_cast<float>(bytes_s));
        }
        const double usual = rates.at(kUsualRate);
        const double share = bytes_s > 0 && usual > 0 ? bytes_s / usual : 1;
        return static_cast<float>(std::log(std::clamp(share, kLeastRate, kMostRate)));
    };
    own_.add(static_cast<float>(own_s));
    return {static_cast<float>(use.cpu_share), log_rate(rx_, use.rx_bytes_s),
            log_rate(tx_, use.tx_bytes_s),
            static_cast<float>(std::log(own_s / static_cast<double>(own_.at(kUsualOwn))))};
}

double LstmScale::own_s(float log_time) const {
    return std::exp(static_cast<double>(log_time)) * static_cast<double>(own_.at(kUsualOwn));
}

PredictorSeries predictor_series(std::span<const IterationRecord> records, std::int64_t batch) {
    PredictorSeries series;
    LstmScale scale;
    for (const IterationRecord& record : records) {
        if (const double own_s = record.own_s(batch); own_s > 0) {
            series.features.push_back(scale.add(record.use, own_s));
        }
    }
    return series;
}

std::int64_t LstmModel::parameter_count() {
    std::int64_t count = dense_count(kHidden, kFeatures);
    for (int layer = 0; layer < kLayers; ++layer) {
        const int in = layer == 0 ? kFeatures : kHidden;
        count += dense_count(in, kGates) + std::int64_t{kHidden} * kGates;
    }
    for (std::size_t i = 0; i + 1 < kTimeNetwork.size(); ++i) {
        count += dense_count(kTimeNetwork.at(i), kTimeNetwork.at(i + 1));
    }
    return count;
}

LstmNetwork::LstmNetwork(const LstmModel& model) : scaling_(model) {
    scaling_.parameters = {};
    if (static_cast<std::int64_t>(model.parameters.size()) != LstmModel::parameter_count()) {
        fail<UsageError>({.where = "predictor",
                          .what = "a model has another number of parameters",
                          .expected = std::to_string(LstmModel::parameter_count()),
                          .got = std::to_string(model.parameters.size())});
    }
    std::span<const float> left(model.parameters);
    const auto take = [&left](int count) {
        const std::span<const float> front = left.first(static_cast<std::size_t>(count));
        left = left.subspan(front.size());
        return front;
    };
    const auto read = [&take](Dense& one, int in, int out) {  // [out,in], transposed
        one = {.in = in, .out = out, .weights = {}, .bias = {}};
        const float* const from = take(in * out).data();
        for (int i = 0; i < in; ++i) {
            for (int o = 0; o < out; ++o) {
                one.weights.push_back(from[std::ptrdiff_t{o} * in + i]);
            }
        }
    };
    const auto read_bias = [&take](Dense& one) {
        const std::span<const float> from = take(one.out);
        one.bias.assign(from.begin(), from.end());
    };
    for (std::size_t layer = 0; layer < cells_.size(); ++layer) {
        Cell& cell = cells_.at(layer);
        read(cell.input, layer == 0 ? LstmModel::kFeatures : kHidden, kGates);
        read(cell.hidden, kHidden, kGates);
        read_bias(cell.input);
    }
    read(resources_, kHidden, LstmModel::kFeatures);
    read_bias(resources_);
    for (std::size_t i = 0; i < time_.size(); ++i) {
        read(time_.at(i), LstmModel::kTimeNetwork.at(i), LstmModel::kTimeNetwork.at(i + 1));
        read_bias(time_.at(i));
    }
}

LstmNetwork::Outputs LstmNetwork::step(const LstmFeatures& scaled, LstmState& state) const {
    const float* x = scaled.data();
    for (std::size_t layer = 0; layer < cells_.size(); ++layer) {
        const Cell& cell = cells_.at(layer);
        std::array<float, kGates> gates{};
        std::ranges::copy(cell.input.bias, gates.begin());
        float* hidden = state.hidden.at(layer).data();
        add_product(cell.input.weights.data(), x, cell.input.in, kGates, gates.data());
        add_product(cell.hidden.weights.data(), hidden, kHidden, kGates, gates.data());
        move_cell(gates.data(), state.cell.at(layer).data(), hidden);
        x = hidden;
    }
    Outputs outputs{};
    std::ranges::copy(resources_.bias, outputs.begin());
    add_product(resources_.weights.data(), x, resources_.in, resources_.out, outputs.data());

    constexpr int kWidest = *std::ranges::max_element(LstmModel::kTimeNetwork);
    std::array<float, kWidest> from{};
    std::array<float, kWidest> to{};
    std::copy(outputs.begin(), outputs.begin() + LstmModel::kFeatures, from.begin());
    for (std::size_t i = 0; i < time_.size(); ++i) {
        const Dense& dense = time_.at(i);
        std::ranges::copy(dense.bias, to.begin());
        add_product(dense.weights.data(), from.data(), dense.in, dense.out, to.data());
        if (i + 1 < time_.size()) {
            std::transform(to.begin(), to.begin() + dense.out, from.begin(),
                           [](float each) { return std::max(each, 0.0F); });
        }
    }
    outputs.back() = to.front();
    return outputs;
}

LstmFeatures LstmNetwork::scaled(const LstmFeatures& features) const {
    LstmFeatures out{};
    for (std::size_t i = 0; i < features.size(); ++i) {
        out.at(i) = (features.at(i) - scaling_.feature_mean.at(i)) /
                    std::max(scaling_.feature_deviation.at(i), 1e-6F);
    }
    return out;
}

float LstmNetwork::log_time(float scaled_time) const {
    return scaled_time * scaling_.time_deviation + scaling_.time_mean;
}

}  // namespace cohort
