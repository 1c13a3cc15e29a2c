#include "python/module/errors.hpp"

#include <CLI/CLI.hpp>
#include <exception>

#include "cohort/core/error.hpp"
#include "core/system/separate_tasks.hpp"

namespace cohort {

void translate_errors(pybind11::module_& module) {
    pybind11::register_exception_translator([](std::exception_ptr failure) {
        try {
            std::rethrow_exception(failure);
        } catch (const CLI::ParseError& error) {
            PyErr_SetString(PyExc_ValueError, error.what());
        } catch (const Error& error) {
            const ExitCode code = error.exit_code();
            PyErr_SetString(code == ExitCode::kUsage   ? PyExc_ValueError
                            : code == ExitCode::kInput ? PyExc_OSError
                                                       : PyExc_RuntimeError,
                            error.what());
        }
    });
    // Asked before the translator above.
    pybind11::register_exception<SeparateTasksError>(module, "SeparateTasksError",
                                                     PyExc_ValueError);
}

bool signal_raised() {
    const pybind11::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;
}

}  // namespace cohort
