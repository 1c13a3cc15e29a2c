#pragma once

namespace cohort {

/// Makes exceptions of the program's errors, with their texts: ValueError for wrong options and
/// shapes, OSError for files, RuntimeError for all others. To be called once, by the module.
void translate_errors();

/// Whether a signal's handler of Python has raised an exception, KeyboardInterrupt for Ctrl-C.
/// Takes the GIL; on Python's main thread.
[[nodiscard]] bool signal_raised();

}  // namespace cohort
