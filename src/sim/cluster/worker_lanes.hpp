#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cohort/sim/simulation.hpp"

namespace cohort {

/// What each worker spent its time and the cluster's resources on. Pure.
class WorkerLanes {
public:
    struct Totals {
        double busy_s = 0;  ///< computing, input work included
        double wait_s = 0;  ///< for others
        double cpu_core_s = 0;
        double bytes = 0;  ///< sent and received
    };
    /// @param most spans that are kept, the first ones
    WorkerLanes(int workers, std::size_t most)
        : totals_(static_cast<std::size_t>(workers)), most_(most) {}

    /// Spans without length are left out.
    void span(int worker, LaneSpan::Kind kind, double begin_s, double end_s);
    void used(int worker, double cpu_core_s, double bytes);

    /// By worker.
    [[nodiscard]] const std::vector<Totals>& totals() const noexcept { return totals_; }
    [[nodiscard]] const std::vector<LaneSpan>& spans() const noexcept { return spans_; }

private:
    std::vector<Totals> totals_;
    std::size_t most_;
    std::vector<LaneSpan> spans_;
};

}  // namespace cohort
