#include "cohort/sched/efficiency.hpp"

#include <algorithm>
#include <cmath>

namespace cohort {

double staleness_efficiency(const StalenessFeatures& features) {
    const double inertia = 1 - std::log1p(-features.momentum);
    const double staleness = StalenessCosts::kFiner * (1 - std::min(features.update_share, 1.0)) -
                             StalenessCosts::kLag * features.mean_square_lag;
    const double drift = StalenessCosts::kDrift * (features.local_steps - 1);
    return std::exp(staleness / inertia - drift * inertia);
}

double batch_efficiency(double noise_scale, double reference_batch, double batch) {
    return (noise_scale + reference_batch) / (noise_scale + batch);
}

}  // namespace cohort
