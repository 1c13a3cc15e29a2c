#pragma once

#include <string>

namespace cohort {

/// What the MPI library says about itself, one line, e.g. "Open MPI v4.1.4, package: ...". May be
/// called without mpirun and before MPI is initialised. Local, does not block.
[[nodiscard]] std::string mpi_library_version();

}  // namespace cohort
