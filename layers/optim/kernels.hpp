#pragma once

#include <cstdint>

namespace cohort::kernels {

/// How weight decay enters the elements of one call.
enum class Decay { kNone, kCoupled, kDecoupled };

/// Coefficients of one SGD update, see Optimizer.
struct SgdFactors {
    enum class Rule { kUnit, kUnitNesterov, kFractional } rule = Rule::kUnit;
    float keep_u = 0;  ///< m^f
    float take_g = 0;  ///< 1 - m^f
    float step = 0;    ///< unit rules: eta / (1-m)
    float step_g = 0;  ///< fractional: theta' = theta - (step_g g + step_u u)
    float step_u = 0;
    float lambda = 0;      ///< coupled: g + lambda theta
    float keep_theta = 1;  ///< decoupled: (1 - eta lambda)^f
};

/// One pass over n elements of parameters, normalised velocity and gradient.
void sgd(const SgdFactors& factors, Decay decay, float* theta, float* u, const float* g,
         std::int64_t n);

/// Coefficients of the velocity in an update by a delta.
struct DeltaFactors {
    float keep = 1;  ///< m^f
    float take = 0;  ///< -(1 - m^f) (1-m) / (eta f)
};

/// theta += delta; u = keep u + take delta, n elements of each.
void sgd_delta(const DeltaFactors& factors, float* theta, float* u, const float* delta,
               std::int64_t n);
/// theta += delta.
void add_delta(float* theta, const float* delta, std::int64_t n);

/// Coefficients of one AdamW update. Where a reference batch completes, its gradient sum is
/// partial + finish g, which enters the second moment; `repeat` more whole batches of g may follow
/// (f > 1), and start g begins the next sum.
struct AdamFactors {
    enum class Rule {
        kWhole,       ///< f = 1, nothing accumulated: partial stays 0 and is not touched
        kAccumulate,  ///< no batch completes
        kFirst,       ///< no batch ever completed: the mean gradient so far is used in its place
        kComplete,    ///< a batch completes
    } rule = Rule::kWhole;
    float keep_m = 0;       ///< beta1^f
    float take_g = 0;       ///< 1 - beta1^f
    float keep_v = 0;       ///< beta2
    float take_v = 0;       ///< 1 - beta2
    float keep_repeat = 1;  ///< beta2^repeat
    float take_repeat = 0;  ///< 1 - beta2^repeat
    float add = 0;          ///< f (kAccumulate, kFirst)
    float finish = 0;       ///< share of f that completes the sum
    float start = 0;        ///< share of f that begins the next one
    float root_scale = 1;   ///< 1 / sqrt(1 - beta2^batches); kFirst: 1 / accumulated f
    float mean_scale = 1;   ///< 1 / (1 - beta1^(sum of f))
    float epsilon = 0;
    float step = 0;  ///< eta f / (1 - beta1^(sum of f))
    float lambda = 0;
    float keep_theta = 1;
};

/// One pass over n elements of parameters, both moments, the partial sum and the gradient.
void adamw(const AdamFactors& factors, Decay decay, float* theta, float* m, float* v,
           float* partial, const float* g, std::int64_t n);

}  // namespace cohort::kernels
