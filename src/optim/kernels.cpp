// The update loops: one fused pass over memory each, bound by bandwidth. This file is compiled
// without contraction into fused multiply-add, so every instruction set gives the same bits.
#include "kernels.hpp"

#include <cmath>

#include "cohort/core/simd.hpp"

namespace cohort::kernels {
namespace {

template <Decay kDecay>
[[gnu::always_inline]] inline float decayed_gradient(float g, float theta, float lambda) {
    if constexpr (kDecay == Decay::kCoupled) {
        return g + lambda * theta;
    } else {
        return g;
    }
}

template <Decay kDecay>
[[gnu::always_inline]] inline float decayed_parameter(float theta, float keep) {
    if constexpr (kDecay == Decay::kDecoupled) {
        return theta * keep;
    } else {
        return theta;
    }
}

template <SgdFactors::Rule kRule, Decay kDecay>
[[gnu::always_inline]] inline void sgd_loop(const SgdFactors& factors, float* __restrict theta,
                                            float* __restrict u, const float* __restrict g,
                                            std::int64_t n) {
    using Rule = SgdFactors::Rule;
    const SgdFactors k = factors;
    for (std::int64_t i = 0; i < n; ++i) {
        const float gradient = decayed_gradient<kDecay>(g[i], theta[i], k.lambda);
        const float old = u[i];
        const float next = k.keep_u * old + k.take_g * gradient;
        u[i] = next;
        const float kept = decayed_parameter<kDecay>(theta[i], k.keep_theta);
        if constexpr (kRule == Rule::kUnit) {
            theta[i] = kept - k.step * next;
        } else if constexpr (kRule == Rule::kUnitNesterov) {
            theta[i] = kept - k.step * (k.take_g * gradient + k.keep_u * next);
        } else {
            theta[i] = kept - (k.step_g * gradient + k.step_u * old);
        }
    }
}

template <AdamFactors::Rule kRule, Decay kDecay>
[[gnu::always_inline]] inline void adamw_loop(const AdamFactors& factors, float* __restrict theta,
                                              float* __restrict m, float* __restrict v,
                                              float* __restrict partial, const float* __restrict g,
                                              std::int64_t n) {
    using Rule = AdamFactors::Rule;
    const AdamFactors k = factors;
    for (std::int64_t i = 0; i < n; ++i) {
        const float gradient = decayed_gradient<kDecay>(g[i], theta[i], k.lambda);
        const float first = k.keep_m * m[i] + k.take_g * gradient;
        m[i] = first;
        float root;
        if constexpr (kRule == Rule::kWhole) {
            const float second = k.keep_v * v[i] + k.take_v * (gradient * gradient);
            v[i] = second;
            root = std::sqrt(second);
        } else if constexpr (kRule == Rule::kComplete) {
            const float sum = partial[i] + k.finish * gradient;
            const float second = k.keep_v * v[i] + k.take_v * (sum * sum);
            const float all = k.keep_repeat * second + k.take_repeat * (gradient * gradient);
            v[i] = all;
            partial[i] = k.start * gradient;
            root = std::sqrt(all);
        } else {
            const float sum = partial[i] + k.add * gradient;
            partial[i] = sum;
            root = kRule == Rule::kFirst ? std::fabs(sum) : std::sqrt(v[i]);
        }
        const float kept = decayed_parameter<kDecay>(theta[i], k.keep_theta);
        theta[i] = kept - k.step * first / (root * k.root_scale + k.epsilon);
    }
}

template <Decay kDecay>
[[gnu::always_inline]] inline void sgd_any(const SgdFactors& factors, float* theta, float* u,
                                           const float* g, std::int64_t n) {
    using Rule = SgdFactors::Rule;
    switch (factors.rule) {
        case Rule::kUnit: sgd_loop<Rule::kUnit, kDecay>(factors, theta, u, g, n); return;
        case Rule::kUnitNesterov:
            sgd_loop<Rule::kUnitNesterov, kDecay>(factors, theta, u, g, n);
            return;
        case Rule::kFractional:
            sgd_loop<Rule::kFractional, kDecay>(factors, theta, u, g, n);
            return;
    }
}

template <Decay kDecay>
[[gnu::always_inline]] inline void adamw_any(const AdamFactors& factors, float* theta, float* m,
                                             float* v, float* partial, const float* g,
                                             std::int64_t n) {
    using Rule = AdamFactors::Rule;
    switch (factors.rule) {
        case Rule::kWhole:
            adamw_loop<Rule::kWhole, kDecay>(factors, theta, m, v, partial, g, n);
            return;
        case Rule::kAccumulate:
            adamw_loop<Rule::kAccumulate, kDecay>(factors, theta, m, v, partial, g, n);
            return;
        case Rule::kFirst:
            adamw_loop<Rule::kFirst, kDecay>(factors, theta, m, v, partial, g, n);
            return;
        case Rule::kComplete:
            adamw_loop<Rule::kComplete, kDecay>(factors, theta, m, v, partial, g, n);
            return;
    }
}

}  // namespace

COHORT_SIMD_CLONES void sgd(const SgdFactors& factors, Decay decay, float* theta, float* u,
                            const float* g, std::int64_t n) {
    switch (decay) {
        case Decay::kNone: sgd_any<Decay::kNone>(factors, theta, u, g, n); return;
        case Decay::kCoupled: sgd_any<Decay::kCoupled>(factors, theta, u, g, n); return;
        case Decay::kDecoupled: sgd_any<Decay::kDecoupled>(factors, theta, u, g, n); return;
    }
}

COHORT_SIMD_CLONES void adamw(const AdamFactors& factors, Decay decay, float* theta, float* m,
                              float* v, float* partial, const float* g, std::int64_t n) {
    switch (decay) {
        case Decay::kNone: adamw_any<Decay::kNone>(factors, theta, m, v, partial, g, n); return;
        case Decay::kCoupled:
            adamw_any<Decay::kCoupled>(factors, theta, m, v, partial, g, n);
            return;
        case Decay::kDecoupled:
            adamw_any<Decay::kDecoupled>(factors, theta, m, v, partial, g, n);
            return;
    }
}

COHORT_SIMD_CLONES void sgd_delta(float keep, float take, float* __restrict theta,
                                  float* __restrict u, const float* __restrict delta,
                                  std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        u[i] = keep * u[i] + take * delta[i];
        theta[i] += delta[i];
    }
}

COHORT_SIMD_CLONES void add_delta(float* __restrict theta, const float* __restrict delta,
                                  std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        theta[i] += delta[i];
    }
}

}  // namespace cohort::kernels
