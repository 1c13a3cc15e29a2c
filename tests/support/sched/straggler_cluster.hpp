#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include "cohort/core/rng.hpp"
#include "cohort/sched/straggler_news.hpp"
#include "cohort/sched/stragglers.hpp"

namespace cohort::test {

inline constexpr std::int64_t kBatch = 64;
inline constexpr double kIteration = 0.25;

/// Workers whose iterations take parts of the time each, with log-normal noise, in rounds.
class StragglerCluster {
public:
    StragglerCluster(int workers, double noise, std::uint64_t seed = 1, double lag_bound = 0)
        : detector(workers, kBatch, lag_bound),
          news(workers),
          noise_(noise),
          random_(seed, RngPurpose::kTest),
          plan(static_cast<std::size_t>(workers), healthy()),
          now_(plan.size(), 0) {}

    static IterationRecord healthy() {
        return {.samples = kBatch,
                .input_s = 0.1 * kIteration,
                .compute_s = 0.7 * kIteration,
                .push_s = 0.1 * kIteration,
                .pull_s = 0.1 * kIteration};
    }
    void push(std::size_t worker) {
        IterationRecord record = plan[worker];
        const double factor = std::exp(noise_ * random_.next_normal());
        record.worker = static_cast<int>(worker);
        for (double* part : {&record.input_s, &record.compute_s, &record.push_s, &record.pull_s}) {
            *part *= factor;
        }
        now_[worker] += record.own_s();
        record.arrived_s = now_[worker];
        const std::optional<StragglerEpisode> before = detector.open()[worker];
        detector.add(record);
        const std::optional<StragglerEpisode>& after = detector.open()[worker];
        if (before && !after) {
            ended.push_back(*before);
        } else if (after && !before) {
            begun.push_back(*after);
        }
        news.add(static_cast<int>(worker), after);
    }
    void round() {
        for (std::size_t worker = 0; worker < plan.size(); ++worker) {
            push(worker);
        }
    }
    void rounds(int count) {
        for (int i = 0; i < count; ++i) {
            round();
        }
    }
    /// Rounds until worker 0 is found slow; `most` when it is not.
    int rounds_until_found(int most) {
        for (int i = 1; i <= most; ++i) {
            round();
            if (detector.open()[0]) {
                return i;
            }
        }
        return most + 1;
    }
    double now(std::size_t worker) const { return now_[worker]; }

    StragglerDetector detector;
    std::vector<StragglerEpisode> begun;  ///< as they were then
    std::vector<StragglerEpisode> ended;
    StragglerNews news;

private:
    double noise_;
    Rng random_;

public:
    std::vector<IterationRecord> plan;

private:
    std::vector<double> now_;
};

/// Everything takes `factor` as long.
inline IterationRecord slowed(double factor) {
    IterationRecord record = StragglerCluster::healthy();
    record.compute_s += (factor - 1) * kIteration;
    return record;
}

}  // namespace cohort::test
