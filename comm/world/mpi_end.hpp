#pragma once

namespace cohort {

/// MPI was shut down in this process; it cannot be started again.
[[nodiscard]] bool mpi_ended();

}  // namespace cohort
