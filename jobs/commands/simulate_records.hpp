#pragma once

#include <string>
#include <vector>

#include "cohort/sim/simulation.hpp"

namespace cohort {

/// A run's summary as one line of JSON; the fields are in docs/simulate.md.
/// @param text  samples are text: its perplexity is told
[[nodiscard]] std::string simulation_json(const SimulationResult& result,
                                          const SimulateOptions& options, bool text);

/// The same for people.
[[nodiscard]] std::vector<std::string> simulation_facts(const SimulationResult& result,
                                                        const SimulateOptions& options, bool text);

}  // namespace cohort
