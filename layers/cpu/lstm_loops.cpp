// The elementwise part of an LSTM, written so that the compiler vectorises it for each instruction
// set. NaN passes through: the trainer's guard must see it.
#include "layers/cpu/lstm_loops.hpp"

#include <bit>

#include "core/system/simd.hpp"

namespace cohort {
namespace {

/// e^x for -87 <= x <= 87, beyond that as at the ends; relative error below 2e-7. 2^n e^r with
/// n = round(x / ln 2), e^r by its series (|r| <= ln(2)/2).
[[gnu::always_inline]] inline float exponential(float x) {
    constexpr float kMost = 87.0F;  // results stay normal numbers
    constexpr float kToPowersOfTwo = 1.44269504F;
    constexpr float kLog2High = 0.693145752F;  // with few bits: n times it is exact
    constexpr float kLog2Low = 1.42860682e-6F;
    constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer
    const float above = x < -kMost ? -kMost : x;
    const float within = above > kMost ? kMost : above;
    const float shifted = within * kToPowersOfTwo + kRound;
    const float n = shifted - kRound;
    const float r = (within - n * kLog2High) - n * kLog2Low;
    float series = 1.0F / 5040;
    series = series * r + 1.0F / 720;
    series = series * r + 1.0F / 120;
    series = series * r + 1.0F / 24;
    series = series * r + 1.0F / 6;
    series = series * r + 0.5F;
    series = series * r + 1.0F;
    series = series * r + 1.0F;
    const std::uint32_t power = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23U;
    return series * std::bit_cast<float>(power);
}

[[gnu::always_inline]] inline float sigmoid(float x) {
    return 1.0F / (1.0F + exponential(-x));
}

[[gnu::always_inline]] inline float tangent(float x) {
    constexpr std::uint32_t kSign = 0x80000000U;
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const float e = exponential(-2.0F * std::bit_cast<float>(bits & ~kSign));
    const auto y = std::bit_cast<std::uint32_t>((1.0F - e) / (1.0F + e));
    return std::bit_cast<float>(y | (bits & kSign));
}

/// One position of one sample: `row` as LstmRows says, `bias` its first four parts.
[[gnu::always_inline]] inline void forward_row(std::int64_t hidden, const float* bias,
                                               const float* before, float* row, float* output) {
#pragma omp simd
    for (std::int64_t k = 0; k < hidden; ++k) {
        const float i = sigmoid(row[k] + bias[k]);
        const float f = sigmoid(row[hidden + k] + bias[hidden + k]);
        const float g = tangent(row[2 * hidden + k] + bias[2 * hidden + k]);
        const float o = sigmoid(row[3 * hidden + k] + bias[3 * hidden + k]);
        const float c = f * before[k] + i * g;
        row[k] = i;
        row[hidden + k] = f;
        row[2 * hidden + k] = g;
        row[3 * hidden + k] = o;
        row[4 * hidden + k] = c;
        output[k] = o * tangent(c);
    }
}

[[gnu::always_inline]] inline void backward_row(std::int64_t hidden, const float* before,
                                                const float* output_gradient,
                                                const float* hidden_gradient, float* row,
                                                float* cell_gradient) {
#pragma omp simd
    for (std::int64_t k = 0; k < hidden; ++k) {
        const float i = row[k];
        const float f = row[hidden + k];
        const float g = row[2 * hidden + k];
        const float o = row[3 * hidden + k];
        const float squashed = tangent(row[4 * hidden + k]);
        const float dh = output_gradient[k] + hidden_gradient[k];
        const float dc = cell_gradient[k] + dh * o * (1.0F - squashed * squashed);
        row[k] = dc * g * i * (1.0F - i);
        row[hidden + k] = dc * before[k] * f * (1.0F - f);
        row[2 * hidden + k] = dc * i * (1.0F - g * g);
        row[3 * hidden + k] = dh * squashed * o * (1.0F - o);
        cell_gradient[k] = dc * f;
    }
}

}  // namespace

COHORT_SIMD_CLONES
void lstm_forward(const LstmRows& at, const float* bias, float* output) {
    for (std::int64_t n = 0; n < at.samples; ++n) {
        forward_row(at.hidden, bias, at.before + n * at.before_stride, at.rows + n * at.row_stride,
                    output + n * at.output_stride);
    }
}

COHORT_SIMD_CLONES
void lstm_backward(const LstmRows& at, const float* output_gradient, const float* hidden_gradient,
                   float* cell_gradient) {
    for (std::int64_t n = 0; n < at.samples; ++n) {
        backward_row(at.hidden, at.before + n * at.before_stride,
                     output_gradient + n * at.output_stride, hidden_gradient + n * at.hidden,
                     at.rows + n * at.row_stride, cell_gradient + n * at.hidden);
    }
}

}  // namespace cohort
