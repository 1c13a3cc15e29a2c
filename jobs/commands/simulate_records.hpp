#pragma once

#include <string>
#include <vector>

#include "cohort/core/task.hpp"
#include "cohort/sim/simulation.hpp"

namespace cohort {

/// A run's summary as one line of JSON; the fields are in docs/simulate.md.
[[nodiscard]] std::string simulation_json(const SimulationResult& result,
                                          const SimulateOptions& options, Task task);

/// The same for people.
[[nodiscard]] std::vector<std::string> simulation_facts(const SimulationResult& result,
                                                        const SimulateOptions& options, Task task);

}  // namespace cohort
