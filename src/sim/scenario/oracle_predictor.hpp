#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "cohort/recorded/profile.hpp"
#include "cohort/sched/predictor.hpp"
#include "sim/scenario/trace.hpp"

namespace cohort {

/// Its name.
inline constexpr std::string_view kOraclePredictor = "oracle";

/// Knows what the trace will do and what iterations cost; what prediction could give at
/// most. It does not know other jobs' arrivals, nor whom a worker will wait for: it takes that to
/// go on as lately.
/// @param scenario  a second one of the same pattern and seed, or of the same rows, from the
///                  beginning; null: healthy
/// @param shape  with the scenario's workers and nodes
/// @param workload  its parameter bytes are those that travel
/// @param batch  samples of a worker's iteration
[[nodiscard]] std::unique_ptr<Predictor> make_oracle_predictor(std::unique_ptr<Scenario> scenario,
                                                               const ClusterShape& shape,
                                                               const ClusterProfile& profile,
                                                               const Workload& workload,
                                                               std::int64_t batch);

}  // namespace cohort
