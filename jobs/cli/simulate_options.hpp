#pragma once

#include <CLI/CLI.hpp>

#include "cohort/sim/simulation.hpp"

namespace cohort {

/// Declares the options of `cohort simulate`; each fills the field of its name.
void declare_simulate_options(CLI::App& app, SimulateOptions& options);

}  // namespace cohort
