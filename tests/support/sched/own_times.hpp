#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "cohort/sched/telemetry.hpp"

namespace cohort::test {

/// Records of workers whose own times are told: each arrives so long after the one before it.
class OwnTimes {
public:
    static constexpr std::int64_t kBatch = 64;

    explicit OwnTimes(int workers) : at_s_(static_cast<std::size_t>(workers), 0) {}

    [[nodiscard]] IterationRecord record(int worker, double own_s) {
        double& at_s = at_s_.at(static_cast<std::size_t>(worker));
        at_s += own_s;
        return {.worker = worker,
                .iteration = ++iterations_,
                .samples = kBatch,
                .arrived_s = at_s,
                .compute_s = own_s};
    }

private:
    std::vector<double> at_s_;
    std::int64_t iterations_ = 0;
};

/// A hog: `on` slow iterations, then `off` quick ones, again and again.
[[nodiscard]] inline double hog_s(int iteration, int on, int off, double quick_s, double slow_s) {
    return iteration % (on + off) < off ? quick_s : slow_s;
}

}  // namespace cohort::test
