#pragma once

#include <string>

#include "cohort/sched/telemetry.hpp"
#include "train/protocol/protocol.hpp"
#include "train/run/job_context.hpp"

namespace cohort {

/// Why numbers cannot be used; empty when they are finite.
[[nodiscard]] std::string non_finite_reason(double loss_sum, bool finite);

/// A gradient's size on the wire.
[[nodiscard]] double push_bytes(const JobContext& parts);
/// A push after its report: what is left of it then leaves.
struct PushSending {
    double seconds = 0;   ///< from the report until all was there
    double before_s = 0;  ///< the same of the worker's push before
    double bytes = 0;     ///< of the whole push that went over the network
};
/// What a report says of its worker's time. What the push before still took after its report was
/// that iteration's: it is no waiting of this one.
/// @param received  bytes that came over the network before it
[[nodiscard]] IterationRecord record_of(const PushReport& report, const PushSending& sending,
                                        double received);

}  // namespace cohort
