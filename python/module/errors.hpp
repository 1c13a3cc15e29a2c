#pragma once

#include <pybind11/pybind11.h>

namespace cohort {

/// Makes exceptions of the program's errors, with their texts: ValueError for wrong options and
/// shapes, SeparateTasksError, a ValueError too, OSError for files, RuntimeError for all others. To
/// be called once, by the module.
void translate_errors(pybind11::module_& module);

/// Whether a signal's handler of Python has raised an exception, KeyboardInterrupt for Ctrl-C.
/// Takes the GIL; on Python's main thread.
[[nodiscard]] bool signal_raised();

}  // namespace cohort
