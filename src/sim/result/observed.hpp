#pragma once

#include <functional>
#include <string>

#include "cohort/core/task.hpp"
#include "cohort/sim/simulation.hpp"

namespace cohort {

/// As simulate(), which it changes nothing of.
/// @param timeline  becomes what every worker did when, for Perfetto (JSON)
[[nodiscard]] SimulationResult simulate(
    const SimulateOptions& options, const std::function<bool(const SimulationProgress&)>& progress,
    std::string& timeline);

/// Writes an event file of TensorBoard into the folder `tensorboard` of a folder, in place of older
/// ones: evaluations and changes of mode over samples applied; times are of the virtual clock.
/// @param task  that was learned  Errors: FileError.
void write_event_file(const std::string& folder, const SimulationResult& result, Task task);

}  // namespace cohort
