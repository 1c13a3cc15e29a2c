// The module `cohort._cohort`: what the package's Python files are built on. Nothing starts MPI
// when it is imported.
#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/core/version.hpp"
#include "core/system/process_usage.hpp"
#include "core/units.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/sweep_options.hpp"
#include "jobs/main/program.hpp"
#include "python/module/collectives_binding.hpp"
#include "python/module/errors.hpp"
#include "python/module/job_binding.hpp"
#include "python/module/results.hpp"
#include "report/sweep/sweep.hpp"

namespace py = pybind11;
using namespace pybind11::literals;

namespace cohort {
namespace {

int run_as_program(std::vector<std::string> words) {
    std::vector<const char*> pointers;
    for (const std::string& word : words) {
        pointers.push_back(word.c_str());
    }
    const py::gil_scoped_release released;
    return run_program(static_cast<int>(pointers.size()), pointers.data());
}

/// Raises what a signal's handler has raised while the GIL was released.
void raise_if(bool raised) {
    if (raised) {
        throw py::error_already_set();
    }
}

py::dict simulate_from_python(const std::vector<std::string>& arguments) {
    SimulateOptions options = parse_simulate(arguments);
    check_momentum({}, options, SimulateOptions().momentum);
    if (options.threads == 0) {
        options.threads = read_launch_env().cores;
    }
    SimulationResult result;
    bool raised = false;
    {
        const py::gil_scoped_release released;
        if (!options.out.empty()) {
            check_result_folder(options.out, options.overwrite);
        }
        const SteadyClock clock;
        const Clock::Seconds begun = clock.now();
        result = simulate(options, [&](const SimulationProgress& /*progress*/) {
            raised = raised || signal_raised();
            return raised;
        });
        result.wall_s = (clock.now() - begun).count();
        result.peak_bytes = process_peak_bytes();
        if (!options.out.empty() && !raised) {
            write_result(options.out, result);
        }
    }
    raise_if(raised);
    return result_of(result);
}

py::dict sweep_from_python(const std::string& file, const std::string& out, int jobs,
                           const std::vector<std::string>& overrides,
                           const std::vector<std::string>& program) {
    bool raised = false;
    SweepOutcome outcome;
    {
        const py::gil_scoped_release released;
        const Experiment experiment =
            read_experiment(file, overrides_of(overrides), check_simulate_option);
        SweepHooks hooks;
        hooks.options = options_of_run;
        hooks.progress = [](const SweepProgress& /*progress*/) {};
        hooks.failed = [](const FailedRun& /*run*/) {};
        check_experiment(experiment, hooks);
        hooks.stop_requested = [&raised] {
            raised = raised || signal_raised();
            return raised;
        };
        outcome = run_sweep(
            experiment,
            {.out = out, .jobs = jobs > 0 ? jobs : read_launch_env().cores, .program = program},
            hooks);
    }
    raise_if(raised);
    if (!outcome.failed.empty()) {
        const FailedRun& first = outcome.failed.front();
        throw std::runtime_error(
            fmt::format("[{}] {} failed; the first, {}, with code {}:\n{}\n(all of it: {})", out,
                        counted(outcome.failed.size(), "run"), first.key, first.code,
                        first.last_lines, first.log));
    }
    return result_of(outcome.results);
}

template <class Read>
py::dict read_without_gil(const Read& read) {
    auto result = [&] {
        const py::gil_scoped_release released;
        return read();
    }();
    return result_of(result);
}

}  // namespace
}  // namespace cohort

PYBIND11_MODULE(_cohort, module) {
    using namespace cohort;
    translate_errors(module);
    module.attr("version") = version();
    module.attr("RESULT_FILE") = kResultFile;
    module.attr("SWEEP_FILE") = kSweepFile;
    bind_collectives(module);
    bind_job(module);
    module.def("run_program", run_as_program, "words"_a);
    module.def("simulate", simulate_from_python, "arguments"_a);
    module.def("sweep", sweep_from_python, "file"_a, "out"_a, "jobs"_a, "overrides"_a, "program"_a);
    module.def(
        "read_result",
        [](const std::string& file) { return read_without_gil([&] { return read_result(file); }); },
        "file"_a);
    module.def(
        "read_sweep",
        [](const std::string& folder) {
            return read_without_gil([&] { return read_sweep_results(folder); });
        },
        "folder"_a);
}
