#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cohort {

/// A measurement of plain MPI, as rank 0 saw it; other ranks get the rank and nothing else.
struct BaselineTimes {
    int rank = 0;
    int ranks = 1;
    std::vector<double> seconds;  ///< of each timed repetition
    double cpu_seconds = 0;       ///< of all ranks together, during the timed repetitions
    bool correct = true;          ///< on all ranks
};

/// What the measurements move.
struct BaselinePattern {
    std::int64_t bytes = 0;  ///< a multiple of 4 * servers, at most 2^31 - 4
    int servers = 1;         ///< streams: ranks 0..servers-1 are servers
    int warmup = 2;
    int repetitions = 20;
};

// For comparison with the project's own exchange: what the MPI library moves when nothing stands in
// between. Each starts and ends MPI itself, so a process calls one of them once and has no
// World. Collective over all ranks. Errors: UsageError for too few ranks, PeerError from MPI.

/// The pattern of parameter servers: every worker sends bytes / servers to every server; a server
/// that has them all answers each worker with as much. MPI_Isend, MPI_Irecv, one message each.
[[nodiscard]] BaselineTimes mpi_baseline_streams(const BaselinePattern& pattern);

/// MPI_Allreduce of floats.
[[nodiscard]] BaselineTimes mpi_baseline_all_reduce(const BaselinePattern& pattern);

/// What the MPI library says about itself, one line, e.g. "Open MPI v4.1.4, package: ...". May be
/// called without mpirun and before MPI is initialised. Local, does not block.
[[nodiscard]] std::string mpi_library_version();

}  // namespace cohort
