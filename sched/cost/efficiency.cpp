#include "cohort/sched/efficiency.hpp"

#include <algorithm>
#include <cmath>

namespace cohort {

double staleness_efficiency(const StalenessFeatures& features) {
    const double inertia = 1 - std::log1p(-features.momentum);
    const double finer = features.normalises
                             ? 0
                             : StalenessCosts::kFiner * (1 - std::min(features.update_share, 1.0));
    const double lag =
        (features.normalises ? StalenessCosts::kNormalisedLag : StalenessCosts::kLag) *
        features.mean_square_lag;
    const double drift = StalenessCosts::kDrift * (features.local_steps - 1);
    return std::exp((finer - lag) / inertia - drift * inertia);
}

double batch_efficiency(double noise_scale, double reference_batch, double batch) {
    return (noise_scale + reference_batch) / (noise_scale + batch);
}

}  // namespace cohort
