#pragma once

#include <pybind11/pybind11.h>

#include "cohort/report/sweep_results.hpp"
#include "cohort/sim/simulation.hpp"

namespace cohort {

/// A virtual run as Python sees it: {"summary": {...}, "options": {...}, "tables": {name: {column:
/// numpy array [rows]}}}. What a row does not have is NaN. With the GIL.
[[nodiscard]] pybind11::dict result_of(const SimulationResult& result);
/// A sweep, in the same form: tables "runs" and "tuning".
[[nodiscard]] pybind11::dict result_of(const SweepResults& results);

}  // namespace cohort
