// The loops of layer normalisation, written so that the compiler vectorises them for each
// instruction set.
#include "layers/cpu/layer_norm_loops.hpp"

#include <cmath>

#include "core/system/simd.hpp"

namespace cohort {

COHORT_SIMD_CLONES
void layer_norm_forward(const NormRows& at, float epsilon, const float* bias, float* output) {
    const std::int64_t features = at.features;
    const float share = 1.0F / static_cast<float>(features);
    for (std::int64_t row = 0; row < at.rows; ++row) {
        const float* x = at.input + row * features;
        float* y = output + row * features;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t f = 0; f < features; ++f) {
            sum += x[f];
        }
        const float mean = sum * share;
        float squares = 0;
#pragma omp simd reduction(+ : squares)
        for (std::int64_t f = 0; f < features; ++f) {
            squares += (x[f] - mean) * (x[f] - mean);
        }
        const float inverse = 1.0F / std::sqrt(squares * share + epsilon);
#pragma omp simd
        for (std::int64_t f = 0; f < features; ++f) {
            y[f] = (x[f] - mean) * inverse * at.weight[f] + bias[f];
        }
        if (at.statistics != nullptr) {
            at.statistics[2 * row] = mean;
            at.statistics[2 * row + 1] = inverse;
        }
    }
}

COHORT_SIMD_CLONES
void layer_norm_backward(const NormRows& at, const float* output_gradient, float* sums,
                         float* input_gradient) {
    const std::int64_t features = at.features;
    const float share = 1.0F / static_cast<float>(features);
    float* weight_sums = sums;
    float* bias_sums = sums + features;
    for (std::int64_t row = 0; row < at.rows; ++row) {
        const float* x = at.input + row * features;
        const float* dy = output_gradient + row * features;
        const float mean = at.statistics[2 * row];
        const float inverse = at.statistics[2 * row + 1];
        float sum = 0;
        float product = 0;
#pragma omp simd reduction(+ : sum, product)
        for (std::int64_t f = 0; f < features; ++f) {
            const float normal = (x[f] - mean) * inverse;
            const float weighted = dy[f] * at.weight[f];
            weight_sums[f] += dy[f] * normal;
            bias_sums[f] += dy[f];
            sum += weighted;
            product += weighted * normal;
        }
        if (input_gradient == nullptr) {
            continue;
        }
        const float of_mean = sum * share;
        const float of_deviation = product * share;
        float* dx = input_gradient + row * features;
#pragma omp simd
        for (std::int64_t f = 0; f < features; ++f) {
            const float normal = (x[f] - mean) * inverse;
            dx[f] = inverse * (dy[f] * at.weight[f] - of_mean - normal * of_deviation);
        }
    }
}

}  // namespace cohort
