// The loops of softmax, written so that the compiler vectorises them for each instruction set.
#include "layers/cpu/softmax_loops.hpp"

#include <cmath>

#include "core/system/simd.hpp"
#include "layers/cpu/exponential.hpp"

namespace cohort {
namespace {

[[gnu::always_inline]] inline float largest_element(const float* row, std::int64_t count) {
    float largest = row[0];
#pragma omp simd reduction(max : largest)
    for (std::int64_t i = 0; i < count; ++i) {
        largest = row[i] > largest ? row[i] : largest;
    }
    return largest;
}

}  // namespace

COHORT_SIMD_CLONES
float softmax_row(float* row, std::int64_t count, float scale) {
    const float shift = scale * largest_element(row, count);
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

COHORT_SIMD_CLONES
float largest_of(const float* row, std::int64_t count) {
    return largest_element(row, count);
}

COHORT_SIMD_CLONES
float add_bias(float* row, const float* bias, std::int64_t count) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        row[i] += bias[i];
    }
    return largest_element(row, count);
}

COHORT_SIMD_CLONES
float exponential_sum(const float* row, std::int64_t count, float shift) {
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t i = 0; i < count; ++i) {
        total += exponential(row[i] - shift);
    }
    return total;
}

COHORT_SIMD_CLONES
float exponentials(float* row, std::int64_t count, float shift) {
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t i = 0; i < count; ++i) {
        row[i] = exponential(row[i] - shift);
        total += row[i];
    }
    return total;
}

COHORT_SIMD_CLONES
void scaled_exponentials(const float* row, std::int64_t count, float shift, float factor,
                         float* to) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        to[i] = exponential(row[i] - shift) * factor;
    }
}

COHORT_SIMD_CLONES
void scale_row(float* row, std::int64_t count, float factor) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        row[i] *= factor;
    }
}

}  // namespace cohort
