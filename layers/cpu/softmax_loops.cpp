// The loops of softmax, written so that the compiler vectorises them for each instruction set.
#include "layers/cpu/softmax_loops.hpp"

#include <cmath>

#include "core/system/simd.hpp"
#include "layers/cpu/exponential.hpp"

namespace cohort {

COHORT_SIMD_CLONES
float softmax_row(float* row, std::int64_t count, float scale) {
    float largest = row[0];
#pragma omp simd reduction(max : largest)
    for (std::int64_t i = 0; i < count; ++i) {
        largest = row[i] > largest ? row[i] : largest;
    }
    const float shift = scale * largest;
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t i = 0; i < count; ++i) {
        row[i] = exponential(scale * row[i] - shift);
        total += row[i];
    }
    const float inverse = 1.0F / total;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        row[i] *= inverse;
    }
    return shift + std::log(total);
}

COHORT_SIMD_CLONES
void softmax_again(float* row, std::int64_t count, float scale, float divisor) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        row[i] = exponential(scale * row[i] - divisor);
    }
}

COHORT_SIMD_CLONES
void softmax_backward(const float* probabilities, std::int64_t count, float scale,
                      float* gradient) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < count; ++i) {
        sum += probabilities[i] * gradient[i];
    }
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        gradient[i] = scale * probabilities[i] * (gradient[i] - sum);
    }
}

}  // namespace cohort
