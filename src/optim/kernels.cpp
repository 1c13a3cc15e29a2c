// The update loops: one fused pass over memory each, bound by bandwidth. This file is compiled
// without contraction into fused multiply-add, so every instruction set gives the same bits.
#include "optim/kernels.hpp"

#include "core/system/simd.hpp"
#include "optim/rules.hpp"

namespace cohort::kernels {
namespace {

template <SgdFactors::Rule kRule, Decay kDecay>
[[gnu::always_inline]] inline void sgd_loop(const SgdFactors& factors, float* __restrict theta,
                                            float* __restrict u, const float* __restrict g,
                                            std::int64_t n) {
    const SgdFactors k = factors;
    for (std::int64_t i = 0; i < n; ++i) {
        sgd_element<kRule, kDecay>(k, theta[i], u[i], g[i]);
    }
}

template <AdamFactors::Rule kRule, Decay kDecay>
[[gnu::always_inline]] inline void adamw_loop(const AdamFactors& factors, float* __restrict theta,
                                              float* __restrict m, float* __restrict v,
                                              float* __restrict partial, const float* __restrict g,
                                              std::int64_t n) {
    const AdamFactors k = factors;
    for (std::int64_t i = 0; i < n; ++i) {
        adamw_element<kRule, kDecay>(k, theta[i], m[i], v[i], partial[i], g[i]);
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

COHORT_SIMD_CLONES void sgd_delta(const DeltaFactors& factors, float* __restrict theta,
                                  float* __restrict u, const float* __restrict delta,
                                  std::int64_t n) {
    const DeltaFactors k = factors;
    for (std::int64_t i = 0; i < n; ++i) {
        sgd_delta_element(k, theta[i], u[i], delta[i]);
    }
}

COHORT_SIMD_CLONES void add_delta(float* __restrict theta, const float* __restrict delta,
                                  std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        theta[i] += delta[i];
    }
}

}  // namespace cohort::kernels
