#pragma once

#include <string>

#include "cohort/core/limits.hpp"
#include "cohort/optim/optimizer.hpp"

namespace cohort {

inline constexpr Limits<double> kLearningRateLimits{
    .least = 0, .most = 1e100, .ends = Limits<double>::Ends::kNotLeast};
inline constexpr Limits<double> kMomentumLimits{
    .least = 0, .most = 1, .ends = Limits<double>::Ends::kNotMost};
inline constexpr Limits<double> kBetaLimits{
    .least = 0, .most = 1, .ends = Limits<double>::Ends::kNotMost};
inline constexpr Limits<double> kEpsilonLimits{
    .least = 0, .most = 1, .ends = Limits<double>::Ends::kNotLeast};
inline constexpr Limits<double> kClipNormLimits{.least = 0, .most = 1e30};
inline constexpr Limits<double> kWeightDecayLimits{.least = 0, .most = 1e30};

/// How any job, real or virtual, learns.
struct LearningOptions {
    double lr = 0.01;                      ///< learning rate at the start of the schedule
    std::string lr_schedule = "constant";  ///< text form of a Schedule
    OptimizerKind optimizer = OptimizerKind::kSgd;
    double momentum = 0.9;
    bool nesterov = false;
    double weight_decay = 0;
    double beta1 = 0.9;     ///< adamw
    double beta2 = 0.999;   ///< adamw
    double epsilon = 1e-8;  ///< adamw
    double clip_norm = 0;   ///< longer gradients are shortened to it; 0: none
};

/// What a gradient of this norm is multiplied with.
[[nodiscard]] inline double clip_factor(double clip_norm, double norm) noexcept {
    return clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1;
}

/// The decay of adamw is decoupled.
[[nodiscard]] OptimizerOptions optimizer_options(const LearningOptions& options);

}  // namespace cohort
