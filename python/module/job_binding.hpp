#pragma once

#include <pybind11/pybind11.h>

namespace cohort {

/// Adds the class Job, and load_model.
void bind_job(pybind11::module_& module);

}  // namespace cohort
