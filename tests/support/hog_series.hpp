#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "cohort/core/rng.hpp"
#include "cohort/sched/lstm_model.hpp"

namespace cohort::test {

/// How a hog works beside a worker.
struct Hog {
    int on = 12;  ///< records that are slow, then `off` that are not
    int off = 20;
    double slower = 3;  ///< own time over the usual one
};

/// A worker's records beside a hog that takes its processor: share and time move together, with
/// noise of 3 %. @param seed  also of the phase
[[nodiscard]] inline PredictorSeries hog_series(const Hog& hog, int records, std::uint64_t seed) {
    Rng rng(seed, RngPurpose::kTest, 31);
    const int period = hog.on + hog.off;
    const int phase = static_cast<int>(rng.next_below(static_cast<std::uint32_t>(period)));
    PredictorSeries series;
    for (int i = 0; i < records; ++i) {
        const double slower = (i + phase) % period < hog.on ? hog.slower : 1.0;
        const double noise = 0.03 * static_cast<double>(rng.next_normal());
        series.features.push_back({static_cast<float>(1 / slower), 0.0F, 0.0F,
                                   static_cast<float>(std::log(slower) + noise)});
    }
    return series;
}

[[nodiscard]] inline std::vector<PredictorSeries> hog_series_of(const Hog& hog, int workers,
                                                                int records, std::uint64_t seed) {
    std::vector<PredictorSeries> series;
    for (int worker = 0; worker < workers; ++worker) {
        series.push_back(
            hog_series(hog, records, 1000 * seed + static_cast<std::uint64_t>(worker)));
    }
    return series;
}

}  // namespace cohort::test
