#pragma once

#include <string>
#include <vector>

#include "sim/scenario/trace.hpp"

namespace cohort {

/// A row of a picture.
struct TraceLane {
    std::string name;
    std::vector<double> speed;  ///< [columns], mean over the column's time; 1: healthy
};

/// Lanes of all workers, and below them those of servers that are ever slower. Speed counts the
/// scarcest share of what somebody has, and delays. @param most  of workers' lanes; when there are
/// more workers a lane is the mean of several
[[nodiscard]] std::vector<TraceLane> trace_lanes(const std::vector<TraceRow>& rows,
                                                 const ClusterShape& shape, double end_s,
                                                 int columns, int most);

}  // namespace cohort
