#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "cohort/core/rng.hpp"
#include "sched/predict/lstm_model.hpp"

namespace cohort::test {

/// Samples of a record.
inline constexpr std::int64_t kHogBatch = 64;

/// How a hog works beside a worker.
struct Hog {
    int on = 12;  ///< records that are slow, then `off` that are not
    int off = 20;
    double slower = 3;  ///< own time over the usual one
};

/// A worker's records beside a hog that takes its processor: share and time move together, with
/// noise of 3 %. @param seed  also of the phase
[[nodiscard]] inline std::vector<IterationRecord> hog_records(const Hog& hog, int worker,
                                                              int records, std::uint64_t seed) {
    Rng rng(seed, RngPurpose::kTest, static_cast<std::uint64_t>(worker), 31);
    const int period = hog.on + hog.off;
    const int phase = static_cast<int>(rng.next_below(static_cast<std::uint32_t>(period)));
    std::vector<IterationRecord> made;
    for (int i = 0; i < records; ++i) {
        const double slower = (i + phase) % period < hog.on ? hog.slower : 1.0;
        const double noise = 0.03 * static_cast<double>(rng.next_normal());
        IterationRecord record{.worker = worker, .iteration = i + 1, .samples = kHogBatch};
        record.compute_s = 0.1 * slower * std::exp(noise);
        record.use.cpu_share = 1 / slower;
        made.push_back(record);
    }
    return made;
}

[[nodiscard]] inline PredictorSeries hog_series(const Hog& hog, int records, std::uint64_t seed) {
    return predictor_series(hog_records(hog, 0, records, seed), kHogBatch);
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
