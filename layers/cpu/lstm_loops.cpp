// The elementwise part of an LSTM, written so that the compiler vectorises it for each instruction
// set. NaN passes through: the trainer's guard must see it.
#include "layers/cpu/lstm_loops.hpp"

#include <bit>

#include "core/system/simd.hpp"
#include "layers/cpu/exponential.hpp"

namespace cohort {
namespace {

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
