#pragma once

namespace cohort {

/// The program `cohort`: runs the command that the arguments name and gives its exit code, after
/// the messages about errors.
[[nodiscard]] int run_program(int argc, const char* const* argv);

}  // namespace cohort
