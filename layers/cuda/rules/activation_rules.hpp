#pragma once

#include <cmath>

#include "cohort/core/host_device.hpp"

// The activations in single precision, as the CPU computes them. NaN passes through: the trainer's
// guard must see it.
namespace cohort::cuda {

COHORT_HD inline float relu_of(float x) {
    return x < 0.0F ? 0.0F : x;
}
/// @param y the ReLU's output
COHORT_HD inline float relu_slope(float y, float gradient) {
    return y <= 0.0F ? 0.0F : gradient;
}
/// min(max(x, 0), 6).
COHORT_HD inline float relu6(float x) {
    return x > 6.0F ? 6.0F : relu_of(x);
}
/// @param y the ReLU6's output
COHORT_HD inline float relu6_slope(float y, float gradient) {
    return y >= 6.0F ? 0.0F : relu_slope(y, gradient);
}

/// x Phi(x), exact.
COHORT_HD inline float gelu(float x) {
    constexpr float kRootHalf = 0.70710678F;
    return 0.5F * x * (1.0F + erff(x * kRootHalf));
}
/// gradient (Phi(x) + x phi(x)).
COHORT_HD inline float gelu_slope(float x, float gradient) {
    constexpr float kRootHalf = 0.70710678F;
    constexpr float kDensity = 0.39894228F;  // 1 / sqrt(2 pi)
    const float below = 0.5F * (1.0F + erff(x * kRootHalf));
    return gradient * (below + x * kDensity * expf(-0.5F * x * x));
}

COHORT_HD inline float sigmoid(float x) {
    return 1.0F / (1.0F + expf(-x));
}
/// @param y the sigmoid's output
COHORT_HD inline float sigmoid_slope(float y, float gradient) {
    return gradient * y * (1.0F - y);
}
/// @param y the hyperbolic tangent's output
COHORT_HD inline float tanh_slope(float y, float gradient) {
    return gradient * (1.0F - y * y);
}

}  // namespace cohort::cuda
