#pragma once

#include <pybind11/pybind11.h>

namespace cohort {

/// Adds the class Collectives, and launch_environment.
void bind_collectives(pybind11::module_& module);

}  // namespace cohort
