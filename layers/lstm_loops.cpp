// The elementwise part of an LSTM, written so that the compiler vectorises it for each instruction
// set. NaN passes through: the trainer's guard must see it.
#include "lstm_loops.hpp"

#include <bit>

#include "cohort/core/simd.hpp"

namespace cohort {
namespace {

/// e^x for x <= 0, relative error below 2e-7: 2^n e^r with n = round(x / ln 2), e^r by its series
/// (|r| <= ln(2)/2). Below -87, where results leave the normal numbers, that of -87.
[[gnu::always_inline]] inline float exp_negative(float x) {
    constexpr float kToPowersOfTwo = 1.44269504F;
    constexpr float kLog2High = 0.693145752F;  // with few bits: n times it is exact
    constexpr float kLog2Low = 1.42860682e-6F;
    constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer
    const float least = x < -87.0F ? -87.0F : x;
    const float shifted = least * kToPowersOfTwo + kRound;
    const float n = shifted - kRound;
    const float r = (least - n * kLog2High) - n * kLog2Low;
    float series = 1.0F / 5040;
    series = series * r + 1.0F / 720;
    series = series * r + 1.0F / 120;
    series = series * r + 1.0F / 24;
    series = series * r + 1.0F / 6;
    series = series * r + 0.5F;
    series = series * r + 1.0F;
    series = series * r + 1.0F;
    const std::int32_t power = std::bit_cast<std::int32_t>(shifted) + 127;
    return series * std::bit_cast<float>(
                        static_cast<std::int32_t>(static_cast<std::uint32_t>(power) << 23U));
}

[[gnu::always_inline]] inline float magnitude(float x) {
    return x < 0.0F ? -x : x;
}

[[gnu::always_inline]] inline float sigmoid(float x) {
    const float e = exp_negative(-magnitude(x));
    const float small = e / (1.0F + e);
    return x < 0.0F ? small : 1.0F - small;
}

[[gnu::always_inline]] inline float tangent(float x) {
    const float e = exp_negative(-2.0F * magnitude(x));
    const float y = (1.0F - e) / (1.0F + e);
    return x < 0.0F ? -y : y;
}

}  // namespace

COHORT_SIMD_CLONES
void lstm_forward(const LstmRows& at, const float* bias, float* output) {
    const std::int64_t hidden = at.hidden;
    const float* __restrict b = bias;
    for (std::int64_t n = 0; n < at.samples; ++n) {
        float* row = at.rows + n * at.row_stride;
        float* __restrict input = row;
        float* __restrict forget = row + hidden;
        float* __restrict candidate = row + 2 * hidden;
        float* __restrict out = row + 3 * hidden;
        float* __restrict cell = row + 4 * hidden;
        float* __restrict h = output + n * at.output_stride;
        const float* __restrict before =
            at.before == nullptr ? nullptr : at.before + n * at.row_stride + 4 * hidden;
        for (std::int64_t k = 0; k < hidden; ++k) {
            const float i = sigmoid(input[k] + b[k]);
            const float f = sigmoid(forget[k] + b[hidden + k]);
            const float g = tangent(candidate[k] + b[2 * hidden + k]);
            const float o = sigmoid(out[k] + b[3 * hidden + k]);
            const float c = (before == nullptr ? 0.0F : f * before[k]) + i * g;
            input[k] = i;
            forget[k] = f;
            candidate[k] = g;
            out[k] = o;
            cell[k] = c;
            h[k] = o * tangent(c);
        }
    }
}

COHORT_SIMD_CLONES
void lstm_backward(const LstmRows& at, const float* output_gradient, const float* hidden_gradient,
                   float* cell_gradient) {
    const std::int64_t hidden = at.hidden;
    for (std::int64_t n = 0; n < at.samples; ++n) {
        float* row = at.rows + n * at.row_stride;
        float* __restrict input = row;
        float* __restrict forget = row + hidden;
        float* __restrict candidate = row + 2 * hidden;
        float* __restrict out = row + 3 * hidden;
        const float* __restrict state = row + 4 * hidden;
        const float* __restrict from_output = output_gradient + n * at.output_stride;
        const float* __restrict from_next = hidden_gradient + n * hidden;
        float* __restrict asked = cell_gradient + n * hidden;
        const float* __restrict before =
            at.before == nullptr ? nullptr : at.before + n * at.row_stride + 4 * hidden;
        for (std::int64_t k = 0; k < hidden; ++k) {
            const float i = input[k];
            const float f = forget[k];
            const float g = candidate[k];
            const float o = out[k];
            const float squashed = tangent(state[k]);
            const float dh = from_output[k] + from_next[k];
            const float dc = asked[k] + dh * o * (1.0F - squashed * squashed);
            input[k] = dc * g * i * (1.0F - i);
            forget[k] = (before == nullptr ? 0.0F : dc * before[k]) * f * (1.0F - f);
            candidate[k] = dc * i * (1.0F - g * g);
            out[k] = dh * squashed * o * (1.0F - o);
            asked[k] = dc * f;
        }
    }
}

}  // namespace cohort
