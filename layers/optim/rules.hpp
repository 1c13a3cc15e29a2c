#pragma once

#include <cmath>

#include "cohort/core/host_device.hpp"
#include "layers/optim/kernels.hpp"

/// The update rules for one element: the CPU's loops and the GPU's kernels are made of them. Both
/// are compiled without contraction into fused multiply-add and with correctly rounded division
/// and square root, so they give the same bits.
namespace cohort::kernels {

template <Decay kDecay>
[[gnu::always_inline]] COHORT_HD inline float decayed_gradient(float g, float theta, float lambda) {
    if constexpr (kDecay == Decay::kCoupled) {
        return g + lambda * theta;
    } else {
        return g;
    }
}

template <Decay kDecay>
[[gnu::always_inline]] COHORT_HD inline float decayed_parameter(float theta, float keep) {
    if constexpr (kDecay == Decay::kDecoupled) {
        return theta * keep;
    } else {
        return theta;
    }
}

template <SgdFactors::Rule kRule, Decay kDecay>
[[gnu::always_inline]] COHORT_HD inline void sgd_element(const SgdFactors& k, float& theta,
                                                         float& u, float g) {
    using Rule = SgdFactors::Rule;
    const float gradient = decayed_gradient<kDecay>(g, theta, k.lambda);
    const float old = u;
    const float next = k.keep_u * old + k.take_g * gradient;
    u = next;
    const float kept = decayed_parameter<kDecay>(theta, k.keep_theta);
    if constexpr (kRule == Rule::kUnit) {
        theta = kept - k.step * next;
    } else if constexpr (kRule == Rule::kUnitNesterov) {
        theta = kept - k.step * (k.take_g * gradient + k.keep_u * next);
    } else {
        theta = kept - (k.step_g * gradient + k.step_u * old);
    }
}

template <AdamFactors::Rule kRule, Decay kDecay>
[[gnu::always_inline]] COHORT_HD inline void adamw_element(const AdamFactors& k, float& theta,
                                                           float& m, float& v, float& partial,
                                                           float g) {
    using Rule = AdamFactors::Rule;
    const float gradient = decayed_gradient<kDecay>(g, theta, k.lambda);
    const float first = k.keep_m * m + k.take_g * gradient;
    m = first;
    float root;
    if constexpr (kRule == Rule::kWhole) {
        const float second = k.keep_v * v + k.take_v * (gradient * gradient);
        v = second;
        root = std::sqrt(second);
    } else if constexpr (kRule == Rule::kComplete) {
        const float sum = partial + k.finish * gradient;
        const float second = k.keep_v * v + k.take_v * (sum * sum);
        const float all = k.keep_repeat * second + k.take_repeat * (gradient * gradient);
        v = all;
        partial = k.start * gradient;
        root = std::sqrt(all);
    } else {
        const float sum = partial + k.add * gradient;
        partial = sum;
        root = kRule == Rule::kFirst ? std::fabs(sum) : std::sqrt(v);
    }
    const float kept = decayed_parameter<kDecay>(theta, k.keep_theta);
    float scaled = root * k.root_scale;
    if constexpr (kRule != Rule::kWhole) {  // a mean square is not below the square of the mean
        const float mean = std::fabs(first) * k.mean_scale;
        scaled = scaled < mean ? mean : scaled;
    }
    theta = kept - k.step * first / (scaled + k.epsilon);
}

/// theta += delta; u = keep u + take delta.
[[gnu::always_inline]] COHORT_HD inline void sgd_delta_element(const DeltaFactors& k, float& theta,
                                                               float& u, float delta) {
    u = k.keep * u + k.take * delta;
    theta += delta;
}

}  // namespace cohort::kernels
