// The update loops: one fused pass over memory each, bound by bandwidth. This file is compiled
// without contraction into fused multiply-add, so every instruction set gives the same bits.
#include "layers/optim/kernels.hpp"

#include "core/system/simd.hpp"
#include "layers/optim/rules.hpp"

namespace cohort::kernels {
namespace {

template <class F>
COHORT_INLINE inline void with_decay(Decay decay, F&& f) {
    with_constant<Decay::kNone, Decay::kCoupled, Decay::kDecoupled>(decay, f);
}

template <SgdFactors::Rule kRule, Decay kDecay>
COHORT_INLINE inline void sgd_loop(const SgdFactors& factors, float* __restrict theta,
                                   float* __restrict u, const float* __restrict g, std::int64_t n) {
    const SgdFactors k = factors;
    for (std::int64_t i = 0; i < n; ++i) {
        sgd_element<kRule, kDecay>(k, theta[i], u[i], g[i]);
    }
}

template <AdamFactors::Rule kRule, Decay kDecay>
COHORT_INLINE inline void adamw_loop(const AdamFactors& factors, float* __restrict theta,
                                     float* __restrict m, float* __restrict v,
                                     float* __restrict partial, const float* __restrict g,
                                     std::int64_t n) {
    const AdamFactors k = factors;
    for (std::int64_t i = 0; i < n; ++i) {
        adamw_element<kRule, kDecay>(k, theta[i], m[i], v[i], partial[i], g[i]);
    }
}

}  // namespace

COHORT_SIMD_CLONES void sgd(const SgdFactors& factors, Decay decay, float* theta, float* u,
                            const float* g, std::int64_t n) {
    using Rule = SgdFactors::Rule;
    with_decay(decay, [&](auto decays) COHORT_INLINE {
        with_constant<Rule::kUnit, Rule::kUnitNesterov, Rule::kFractional>(
            factors.rule, [&](auto rule) COHORT_INLINE {
                sgd_loop<decltype(rule)::value, decltype(decays)::value>(factors, theta, u, g, n);
            });
    });
}

COHORT_SIMD_CLONES void adamw(const AdamFactors& factors, Decay decay, float* theta, float* m,
                              float* v, float* partial, const float* g, std::int64_t n) {
    using Rule = AdamFactors::Rule;
    with_decay(decay, [&](auto decays) COHORT_INLINE {
        with_constant<Rule::kWhole, Rule::kAccumulate, Rule::kFirst, Rule::kComplete>(
            factors.rule, [&](auto rule) COHORT_INLINE {
                adamw_loop<decltype(rule)::value, decltype(decays)::value>(factors, theta, m, v,
                                                                           partial, g, n);
            });
    });
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
